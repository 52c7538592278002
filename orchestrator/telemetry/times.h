// Points in time as the files of measurements write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "orchestrator/telemetry/capture.h"

namespace sweep::telemetry {

struct TimePoint {
  Clock clock = Clock::kLocal;
  int64_t ns = 0;  // of the local wall clock: as if its time zone were UTC
};

// "2026/11/03 10:00:00.000", "2026-11-03T10:00:03.5", with "Z" or "+01:00" behind it for Unix time. Years 1970 to 2261,
// the calendar's days only, at most nine digits of a second's fraction.
std::optional<TimePoint> parse_date_time(std::string_view text);

// Seconds with at most nine decimals, exactly: "1789384980.250". Not negative.
std::optional<int64_t> parse_seconds(std::string_view text);

}  // namespace sweep::telemetry
