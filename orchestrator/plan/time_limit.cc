#include <charconv>
#include <vector>

#include "orchestrator/plan/summary.h"

namespace sweep::plan {

namespace {

std::optional<int64_t> number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  constexpr int64_t kMost = 1'000'000;
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > kMost) return std::nullopt;
  return value;
}

}  // namespace

std::optional<double> time_limit_minutes(std::string_view text) {
  constexpr double kHoursADay = 24;
  constexpr double kMinutesAnHour = 60;
  constexpr double kSecondsAMinute = 60;
  int64_t days = 0;
  const size_t dash = text.find('-');
  if (dash != std::string_view::npos) {
    const auto stated = number(text.substr(0, dash));
    if (!stated) return std::nullopt;
    days = *stated;
    text.remove_prefix(dash + 1);
  }
  std::vector<double> parts;
  while (true) {
    const size_t colon = text.find(':');
    const auto part = number(text.substr(0, colon));
    if (!part) return std::nullopt;
    parts.push_back(static_cast<double>(*part));
    if (colon == std::string_view::npos) break;
    text.remove_prefix(colon + 1);
  }
  if (parts.size() > 3) return std::nullopt;
  // With days the first part is hours; without, one or two parts are minutes and seconds.
  if (dash == std::string_view::npos && parts.size() < 3) parts.insert(parts.begin(), 0);
  parts.resize(3, 0);
  const double minutes =
      (static_cast<double>(days) * kHoursADay + parts[0]) * kMinutesAnHour + parts[1] + parts[2] / kSecondsAMinute;
  if (minutes <= 0) return std::nullopt;
  return minutes;
}

}  // namespace sweep::plan
