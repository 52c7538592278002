#include "orchestrator/plan/point_choice.h"

#include "orchestrator/plan/row_builder.h"

namespace sweep::plan {

namespace {

using schema::Point;
using schema::PointView;

PointChoice clamp_list(std::vector<int64_t> values, const FullSweep& options, bool substitute) {
  if (options.min_conc) {
    if (substitute && *options.min_conc <= 0) return {};
    std::erase_if(values, [&](int64_t value) { return value < *options.min_conc; });
    if (values.empty()) return {};
  }
  PointChoice choice;
  if (options.max_conc) {
    if (substitute && *options.max_conc <= 0) return {};
    std::erase_if(values, [&](int64_t value) { return value > *options.max_conc; });
    if (values.empty() && substitute) {
      values.push_back(*options.max_conc);
      choice.has_invented = true;
    }
  }
  choice.concurrencies = std::move(values);
  return choice;
}

// A range is cut before it becomes a ladder: the ladder restarts at the minimum and ends exactly at the maximum.
PointChoice clamp_range(Point point, const FullSweep& options) {
  const std::vector<int64_t> own = schema::concurrencies_of(point, options.step_size);
  if (options.min_conc) {
    if (*options.min_conc <= 0 || *point.conc_end < *options.min_conc) return {};
    point.conc_start.value = std::max(*point.conc_start, *options.min_conc);
  }
  if (options.max_conc) {
    if (*options.max_conc <= 0) return {};
    if (*point.conc_start > *options.max_conc) return {.concurrencies = {*options.max_conc}, .has_invented = true};
    point.conc_end.value = std::min(*point.conc_end, *options.max_conc);
  }
  PointChoice choice{.concurrencies = schema::concurrencies_of(point, options.step_size)};
  choice.has_invented = std::any_of(choice.concurrencies.begin(), choice.concurrencies.end(), [&](int64_t value) {
    return std::find(own.begin(), own.end(), value) == own.end();
  });
  return choice;
}

}  // namespace

PointChoice choose_full_sweep(const PointView& view, const FullSweep& options) {
  const Point& point = *view.point;
  const RowKind kind = kind_of(view);
  if (kind != RowKind::kSingleFixed)
    return clamp_list(schema::concurrencies_of(point, options.step_size), options, kind == RowKind::kMultiFixed);
  if (options.max_tp && (*options.max_tp <= 0 || point.tp.value > *options.max_tp)) return {};
  if (options.max_ep && *options.max_ep <= 0) return {};
  const bool range = !point.has_conc_list() && point.conc_start && point.conc_end;
  PointChoice choice = range ? clamp_range(point, options)
                             : clamp_list(schema::concurrencies_of(point, options.step_size), options, true);
  if (options.max_ep && point.ep && *point.ep > *options.max_ep) choice.ep = *options.max_ep;
  return choice;
}

PointChoice choose_test_config(const PointView& view, const TestConfig& options) {
  PointChoice choice{.concurrencies = schema::concurrencies_of(*view.point)};
  std::erase_if(choice.concurrencies, [&](int64_t value) { return !allows(options.concurrencies, value); });
  return choice;
}

}  // namespace sweep::plan
