// Which concurrencies of a point the options of a command leave. Private to this module.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "orchestrator/plan/rows.h"
#include "orchestrator/schema/points.h"

namespace sweep::plan {

// An empty filter allows everything.
template <class T>
bool allows(const std::vector<T>& filter, const T& value) {
  return filter.empty() || std::find(filter.begin(), filter.end(), value) != filter.end();
}

struct PointChoice {
  std::vector<int64_t> concurrencies;  // empty: the point is skipped
  std::optional<int64_t> ep;           // in the place of the point's own
  // The last concurrency is a limit that the point does not list itself.
  bool has_invented = false;
};

PointChoice choose_full_sweep(const schema::PointView& view, const FullSweep& options);
PointChoice choose_test_config(const schema::PointView& view, const TestConfig& options);

}  // namespace sweep::plan
