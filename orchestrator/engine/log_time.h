// Times as engines write them into their logs: a wall clock of unknown zone, with a year or without, or only the time
// of day as a person types it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sweep::engine {

struct LogTime {
  std::optional<int> year;
  std::optional<int> day;  // month * 100 + day of the month; absent: the time of day only
  int64_t day_ns = 0;      // since midnight
  bool utc = false;        // known to be UTC

  // Nanoseconds on the log's clock since 1970, of a time that has a day. Without a year, 2000 is taken: a leap year.
  int64_t ns(int64_t year_if_none = 2000) const;
};

// The first time in the beginning of a line: "2026-11-03 10:12:05", with "T" between, ".123" or ",123" behind, or
// without its year. Nothing if there is none.
std::optional<LogTime> time_in_line(std::string_view line);

// A whole text: the same forms, or "10:12:05" alone, or "@1790000000.5", seconds of Unix time (which is UTC).
std::optional<LogTime> parse_log_time(std::string_view text);

// Of Unix time.
LogTime log_time_of_unix(int64_t unix_ns);

}  // namespace sweep::engine
