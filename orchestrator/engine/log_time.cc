#include "orchestrator/engine/log_time.h"

#include <charconv>
#include <chrono>
#include <cmath>

namespace sweep::engine {

namespace {

using std::chrono::day;
using std::chrono::month;
using std::chrono::sys_days;
using std::chrono::year;
using std::chrono::year_month_day;

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kDay = 86'400 * kSecond;
constexpr size_t kLongestPrefix = 64;                // of a line, in which its time must begin
constexpr int64_t kMostUnixSeconds = 7'289'654'400;  // the beginning of 2201
// Of any log. Nanoseconds since 1970 end in 2262.
constexpr int kFirstYear = 1970;
constexpr int kLastYear = 2200;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Exactly so many digits; removes them.
std::optional<int> take_digits(std::string_view& text, size_t count) {
  if (text.size() < count) return std::nullopt;
  int value = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!is_digit(text[i])) return std::nullopt;
    value = value * 10 + (text[i] - '0');
  }
  text.remove_prefix(count);
  return value;
}

bool take(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

// HH:MM:SS with an optional fraction.
std::optional<int64_t> take_time_of_day(std::string_view& text) {
  const auto hour = take_digits(text, 2);
  if (!hour || *hour > 23 || !take(text, ':')) return std::nullopt;
  const auto minute = take_digits(text, 2);
  if (!minute || *minute > 59 || !take(text, ':')) return std::nullopt;
  const auto second = take_digits(text, 2);
  if (!second || *second > 60) return std::nullopt;
  int64_t ns = ((int64_t{*hour} * 60 + *minute) * 60 + *second) * kSecond;
  if (text.size() >= 2 && (text[0] == '.' || text[0] == ',') && is_digit(text[1])) {
    text.remove_prefix(1);
    for (int64_t unit = kSecond / 10; !text.empty() && is_digit(text.front()); unit /= 10) {
      ns += (text.front() - '0') * unit;
      text.remove_prefix(1);
    }
  }
  return ns;
}

// [YYYY-]MM-DD and a time of day.
std::optional<LogTime> take_date_time(std::string_view& text) {
  LogTime time;
  std::string_view rest = text;
  if (auto with_year = rest; const auto first = take_digits(with_year, 4)) {
    if (!take(with_year, '-') || *first < kFirstYear || *first > kLastYear) return std::nullopt;
    time.year = *first;
    rest = with_year;
  }
  const auto month_number = take_digits(rest, 2);
  if (!month_number || !take(rest, '-')) return std::nullopt;
  const auto day_number = take_digits(rest, 2);
  if (!day_number || (!take(rest, ' ') && !take(rest, 'T'))) return std::nullopt;
  const year_month_day date(year(time.year.value_or(2000)), month(static_cast<unsigned>(*month_number)),
                            day(static_cast<unsigned>(*day_number)));
  const auto of_day = take_time_of_day(rest);
  if (!date.ok() || !of_day) return std::nullopt;
  time.day = *month_number * 100 + *day_number;
  time.day_ns = *of_day;
  text = rest;
  return time;
}

std::optional<LogTime> parse_unix(std::string_view text) {
  int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || seconds < 0 || seconds > kMostUnixSeconds) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  int64_t ns = seconds * kSecond;
  if (take(text, '.')) {
    if (text.empty()) return std::nullopt;
    for (int64_t unit = kSecond / 10; !text.empty(); unit /= 10) {
      const auto digit = take_digits(text, 1);
      if (!digit) return std::nullopt;
      ns += *digit * unit;
    }
  }
  return text.empty() ? std::optional(log_time_of_unix(ns)) : std::nullopt;
}

}  // namespace

int64_t LogTime::ns(int64_t year_if_none) const {
  const int date = day.value_or(101);
  const year_month_day civil(std::chrono::year(year.value_or(static_cast<int>(year_if_none))),
                             std::chrono::month(static_cast<unsigned>(date / 100)),
                             std::chrono::day(static_cast<unsigned>(date % 100)));
  return sys_days(civil).time_since_epoch().count() * kDay + day_ns;
}

std::optional<LogTime> time_in_line(std::string_view line) {
  for (size_t at = 0; at < line.size() && at < kLongestPrefix; ++at) {
    if (!is_digit(line[at]) || (at > 0 && (is_digit(line[at - 1]) || line[at - 1] == '-'))) continue;
    std::string_view rest = line.substr(at);
    if (const auto time = take_date_time(rest)) return time;
  }
  return std::nullopt;
}

std::optional<LogTime> parse_log_time(std::string_view text) {
  if (take(text, '@')) return parse_unix(text);
  std::string_view rest = text;
  if (const auto time = take_date_time(rest)) return rest.empty() || rest == "Z" ? time : std::nullopt;
  rest = text;
  const auto of_day = take_time_of_day(rest);
  if (!of_day || !rest.empty()) return std::nullopt;
  return LogTime{.year = std::nullopt, .day = std::nullopt, .day_ns = *of_day};
}

LogTime log_time_of_unix(int64_t unix_ns) {
  const int64_t days = unix_ns / kDay - (unix_ns % kDay < 0 ? 1 : 0);
  const year_month_day date{sys_days{std::chrono::days{days}}};
  return {.year = static_cast<int>(date.year()),
          .day = static_cast<int>(static_cast<unsigned>(date.month()) * 100 + static_cast<unsigned>(date.day())),
          .day_ns = unix_ns - days * kDay,
          .utc = true};
}

}  // namespace sweep::engine
