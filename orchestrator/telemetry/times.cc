#include "orchestrator/telemetry/times.h"

#include <charconv>
#include <chrono>

#include "orchestrator/base/clock.h"

namespace sweep::telemetry {

namespace {

constexpr int64_t kMostSeconds = INT64_MAX / base::kNanosecondsPerSecond - 1;
constexpr size_t kFractionDigits = 9;

// Takes text apart from the front.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool done() const { return text_.empty(); }
  std::string_view rest() const { return text_; }

  bool take(char c) {
    if (text_.empty() || text_.front() != c) return false;
    text_.remove_prefix(1);
    return true;
  }

  std::optional<int> digits(size_t count) {
    if (text_.size() < count) return std::nullopt;
    int value = 0;
    for (const char c : text_.substr(0, count)) {
      if (c < '0' || c > '9') return std::nullopt;
      value = value * 10 + (c - '0');
    }
    text_.remove_prefix(count);
    return value;
  }

  // ".25" as nanoseconds; nothing for a point without digits or with too many.
  std::optional<int64_t> fraction() {
    if (!take('.')) return 0;
    int64_t ns = 0;
    size_t count = 0;
    while (!text_.empty() && text_.front() >= '0' && text_.front() <= '9') {
      if (++count > kFractionDigits) return std::nullopt;
      ns = ns * 10 + (text_.front() - '0');
      text_.remove_prefix(1);
    }
    if (count == 0) return std::nullopt;
    for (; count < kFractionDigits; ++count) ns *= 10;
    return ns;
  }

 private:
  std::string_view text_;
};

std::optional<int64_t> days(Reader& reader) {
  constexpr int kFirstYear = 1970;
  constexpr int kLastYear = 2261;  // later times do not fit into 64 bits of nanoseconds
  const auto year = reader.digits(4);
  const char separator = reader.rest().starts_with('/') ? '/' : '-';
  if (!year || *year < kFirstYear || *year > kLastYear || !reader.take(separator)) return std::nullopt;
  const auto month = reader.digits(2);
  if (!month || !reader.take(separator)) return std::nullopt;
  const auto day = reader.digits(2);
  if (!day) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year), std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return std::nullopt;
  return std::chrono::sys_days(date).time_since_epoch().count();
}

std::optional<int64_t> seconds_of_day(Reader& reader) {
  const auto hour = reader.digits(2);
  if (!hour || *hour > 23 || !reader.take(':')) return std::nullopt;
  const auto minute = reader.digits(2);
  if (!minute || *minute > 59 || !reader.take(':')) return std::nullopt;
  const auto second = reader.digits(2);
  if (!second || *second > 59) return std::nullopt;
  return (int64_t{*hour} * 60 + *minute) * 60 + *second;
}

// Seconds east of UTC; nothing if what follows is no zone.
std::optional<int64_t> zone(Reader& reader) {
  if (reader.take('Z')) return 0;
  const bool west = reader.rest().starts_with('-');
  if (!reader.take(west ? '-' : '+')) return std::nullopt;
  const auto hour = reader.digits(2);
  reader.take(':');
  const auto minute = reader.digits(2);
  if (!hour || *hour > 15 || !minute || *minute > 59) return std::nullopt;
  const int64_t offset = (int64_t{*hour} * 60 + *minute) * 60;
  return west ? -offset : offset;
}

}  // namespace

std::optional<TimePoint> parse_date_time(std::string_view text) {
  constexpr int64_t kSecondsPerDay = 86'400;
  Reader reader(text);
  const auto day = days(reader);
  if (!day || !(reader.take('T') || reader.take(' '))) return std::nullopt;
  const auto seconds = seconds_of_day(reader);
  if (!seconds) return std::nullopt;
  const auto fraction = reader.fraction();
  if (!fraction) return std::nullopt;
  TimePoint point{.clock = Clock::kLocal,
                  .ns = (*day * kSecondsPerDay + *seconds) * base::kNanosecondsPerSecond + *fraction};
  if (reader.done()) return point;
  const auto offset = zone(reader);
  if (!offset || !reader.done()) return std::nullopt;
  return TimePoint{.clock = Clock::kUnix, .ns = point.ns - *offset * base::kNanosecondsPerSecond};
}

std::optional<int64_t> parse_seconds(std::string_view text) {
  int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || seconds < 0 || seconds > kMostSeconds || text.starts_with('-')) return std::nullopt;
  Reader reader(text.substr(static_cast<size_t>(end - text.data())));
  const auto fraction = reader.fraction();
  if (!fraction || !reader.done()) return std::nullopt;
  return seconds * base::kNanosecondsPerSecond + *fraction;
}

}  // namespace sweep::telemetry
