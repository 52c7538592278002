#include "orchestrator/telemetry/energy.h"

#include <algorithm>
#include <vector>

#include "orchestrator/base/clock.h"
#include "orchestrator/stats/distribution.h"

namespace sweep::telemetry {

namespace {

double seconds_between(int64_t from_ns, int64_t to_ns) {
  return static_cast<double>(to_ns - from_ns) / base::kNanosecondsPerSecond;
}

}  // namespace

double Span::seconds() const {
  return seconds_between(begin_ns, end_ns);
}

std::optional<double> value_at(std::span<const Point> points, int64_t ns) {
  const auto after =
      std::lower_bound(points.begin(), points.end(), ns, [](const Point& p, int64_t time) { return p.ns < time; });
  if (after == points.end()) return std::nullopt;
  if (after->ns == ns) return after->value;
  if (after == points.begin()) return std::nullopt;
  const Point& before = *(after - 1);
  const double share = seconds_between(before.ns, ns) / seconds_between(before.ns, after->ns);
  return before.value + (after->value - before.value) * share;
}

std::optional<double> integrate(std::span<const Point> points, const Span& window) {
  const auto first = value_at(points, window.begin_ns);
  const auto last = value_at(points, window.end_ns);
  if (!first || !last) return std::nullopt;
  Point previous{window.begin_ns, *first};
  std::vector<double> areas;
  const auto add = [&](const Point& next) {
    areas.push_back((previous.value + next.value) / 2 * seconds_between(previous.ns, next.ns));
    previous = next;
  };
  for (const Point& point : points)
    if (point.ns > window.begin_ns && point.ns < window.end_ns) add(point);
  add({window.end_ns, *last});
  return stats::stable_sum(areas);
}

}  // namespace sweep::telemetry
