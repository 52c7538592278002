// Energy of one GPU over exactly the measured window.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "orchestrator/telemetry/window.h"

namespace sweep::telemetry {

// A value at a time.
struct Point {
  int64_t ns = 0;
  double value = 0;
};

// The value at a time between two points, on the line through them; nothing before the first or after the last.
// `points` ascend strictly in time.
std::optional<double> value_at(std::span<const Point> points, int64_t ns);

// The integral of the line through the points from one end of the window to the other, in value times seconds: the
// trapezoid rule, with the values at both ends of the window interpolated. Nothing unless the points begin at or before
// the window and end at or after it.
std::optional<double> integrate(std::span<const Point> points, const Span& window);

}  // namespace sweep::telemetry
