#include "orchestrator/plan/rows.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>

#include "orchestrator/base/edit_distance.h"
#include "orchestrator/diag/rules/matrix.h"
#include "orchestrator/plan/eval_marking.h"
#include "orchestrator/plan/row_builder.h"

namespace sweep::plan {

namespace {

namespace rule = diag::rule;
using schema::Checkout;
using schema::MatrixEntry;
using schema::Point;
using schema::PointView;
using schema::ScenarioKind;

template <class T>
bool allows(const std::vector<T>& filter, const T& value) {
  return filter.empty() || std::find(filter.begin(), filter.end(), value) != filter.end();
}

// Concurrencies and ep of a point under the options of one command; no concurrencies: the point is skipped.
struct PointChoice {
  std::vector<int64_t> concurrencies;
  std::optional<int64_t> ep;
};

std::vector<int64_t> clamp_list(std::vector<int64_t> values, const FullSweep& options, bool substitute) {
  if (options.min_conc) {
    if (substitute && *options.min_conc <= 0) return {};
    std::erase_if(values, [&](int64_t value) { return value < *options.min_conc; });
    if (values.empty()) return values;
  }
  if (options.max_conc) {
    if (substitute && *options.max_conc <= 0) return {};
    std::erase_if(values, [&](int64_t value) { return value > *options.max_conc; });
    if (values.empty() && substitute) values.push_back(*options.max_conc);
  }
  return values;
}

// A range is cut before it becomes a ladder: the ladder restarts at the minimum and ends exactly at the maximum.
std::vector<int64_t> clamp_range(Point point, const FullSweep& options) {
  if (options.min_conc) {
    if (*options.min_conc <= 0 || *point.conc_end < *options.min_conc) return {};
    point.conc_start.value = std::max(*point.conc_start, *options.min_conc);
  }
  if (options.max_conc) {
    if (*options.max_conc <= 0) return {};
    if (*point.conc_start > *options.max_conc) return {*options.max_conc};
    point.conc_end.value = std::min(*point.conc_end, *options.max_conc);
  }
  return schema::concurrencies_of(point, options.step_size);
}

PointChoice choose_full_sweep(const PointView& view, const FullSweep& options) {
  const Point& point = *view.point;
  const RowKind kind = kind_of(view);
  PointChoice choice;
  if (kind != RowKind::kSingleFixed) {
    choice.concurrencies =
        clamp_list(schema::concurrencies_of(point, options.step_size), options, kind == RowKind::kMultiFixed);
    return choice;
  }
  if (options.max_tp && (*options.max_tp <= 0 || point.tp.value > *options.max_tp)) return {};
  if (options.max_ep) {
    if (*options.max_ep <= 0) return {};
    if (point.ep && *point.ep > *options.max_ep) choice.ep = *options.max_ep;
  }
  const bool range = !point.has_conc_list() && point.conc_start && point.conc_end;
  choice.concurrencies = range ? clamp_range(point, options)
                               : clamp_list(schema::concurrencies_of(point, options.step_size), options, true);
  return choice;
}

PointChoice choose_test_config(const PointView& view, const TestConfig& options) {
  PointChoice choice{schema::concurrencies_of(*view.point), {}};
  std::erase_if(choice.concurrencies, [&](int64_t value) { return !allows(options.concurrencies, value); });
  return choice;
}

class RowCollector {
 public:
  RowCollector(const Checkout& checkout, const RowFilter& filter, diag::Diagnostics& out)
      : checkout_(checkout), filter_(filter), out_(out) {}

  // `runners`: the label, or the nodes that stand in its place.
  template <class Choose>
  void add(const MatrixEntry& entry, const std::vector<std::string>& runners, Choose choose) {
    for (const PointView& view : schema::points_of(entry)) {
      if (!allows(filter_.scenario_types,
                  view.fixed != nullptr ? ScenarioKind::kFixedSeqLen : ScenarioKind::kAgenticCoding))
        continue;
      if (view.fixed != nullptr && !allows(filter_.seq_lens, std::pair{view.fixed->isl.value, view.fixed->osl.value}))
        continue;
      add_point(view, runners, choose(view));
    }
  }

  std::vector<BuiltRow> take() { return std::move(rows_); }

 private:
  void add_point(const PointView& view, const std::vector<std::string>& runners, const PointChoice& choice) {
    const RowKind kind = kind_of(view);
    int64_t dram = 0;
    if (view.agentic != nullptr) {
      const auto budget = dram_budget(view, checkout_, out_);
      if (!budget) return;
      dram = *budget;
    }
    if (choice.concurrencies.empty()) return;
    const auto emit = [&](const std::string& runner, std::vector<int64_t> concurrencies) {
      rows_.push_back(build_row({&view, runner, std::move(concurrencies), choice.ep, dram}));
    };
    if (kind == RowKind::kMultiFixed) {
      for (const std::string& runner : runners) emit(runner, choice.concurrencies);
    } else if (kind == RowKind::kMultiAgentic) {
      for (const std::string& runner : runners)
        for (const int64_t concurrency : choice.concurrencies) emit(runner, {concurrency});
    } else {
      for (const int64_t concurrency : choice.concurrencies)
        for (const std::string& runner : runners) emit(runner, {concurrency});
    }
  }

  const Checkout& checkout_;
  const RowFilter& filter_;
  diag::Diagnostics& out_;
  std::vector<BuiltRow> rows_;
};

// The nodes of the entry's runner whose names contain the filter; the label itself without a filter.
std::vector<std::string> runners_of(const MatrixEntry& entry, const Checkout& checkout, const std::string& filter) {
  if (filter.empty()) return {entry.runner.value};
  std::vector<std::string> nodes;
  const schema::RunnerLabel* label = checkout.runners.find_label(entry.runner.value);
  if (label == nullptr) return nodes;
  for (const schema::Text& node : label->nodes)
    if (node->find(filter) != std::string::npos) nodes.push_back(*node);
  return nodes;
}

// As above; a label that contains the filter is the first candidate, and repeats are dropped.
std::vector<std::string> test_runners_of(const MatrixEntry& entry, const Checkout& checkout,
                                         const std::string& filter) {
  if (filter.empty()) return {entry.runner.value};
  std::vector<std::string> runners;
  if (entry.runner->find(filter) != std::string::npos) runners.push_back(entry.runner.value);
  for (std::string& node : runners_of(entry, checkout, filter))
    if (std::find(runners.begin(), runners.end(), node) == runners.end()) runners.push_back(std::move(node));
  return runners;
}

MatrixRows finish(std::vector<BuiltRow> rows, Evals evals, diag::Diagnostics diagnostics) {
  mark_evals(rows, evals);
  MatrixRows result;
  result.count = rows.size();
  result.json = "[";
  for (const BuiltRow& built : rows) result.json += (result.json.size() > 1 ? ", " : "") + row_text(built.row);
  result.json += "]";
  if (rows.empty() && !diagnostics.has_errors())
    diagnostics.add(diag::make(rule::plan_no_row, "the filters leave no row of the job matrix",
                               "relax a filter; `plan` without filters lists everything"));
  diagnostics.normalise();
  result.diagnostics = std::move(diagnostics);
  return result;
}

bool selected(const MatrixEntry& entry, const FullSweep& options) {
  const bool prefix =
      options.model_prefixes.empty() || std::any_of(options.model_prefixes.begin(), options.model_prefixes.end(),
                                                    [&](const std::string& p) { return entry.key.starts_with(p); });
  return prefix && allows(options.precisions, entry.precision.value) &&
         allows(options.frameworks, entry.framework.value) && allows(options.runner_types, entry.runner.value) &&
         (entry.multinode.value ? options.multi_node : options.single_node);
}

void check_runner_types(const Checkout& checkout, const FullSweep& options, diag::Diagnostics& out) {
  std::vector<std::string_view> labels;
  for (const schema::RunnerLabel& label : checkout.runners.labels) labels.push_back(label.name);
  for (const std::string& type : options.runner_types) {
    if (checkout.runners.find_label(type) != nullptr) continue;
    const auto nearest = base::nearest(type, labels);
    out.add(diag::make(rule::plan_unknown_runner_type,
                       fmt::format("runner type \"{}\" is no label of the runner file", type),
                       nearest ? fmt::format("did you mean \"{}\"?", *nearest) : std::string()));
  }
}

std::vector<const MatrixEntry*> resolve(const Checkout& checkout, const std::vector<std::string>& keys,
                                        diag::Diagnostics& out) {
  std::vector<const MatrixEntry*> entries;
  for (const std::string& key : keys) {
    const bool glob = key.find_first_of("*?") != std::string::npos;
    bool found = false;
    for (const MatrixEntry& entry : checkout.entries) {
      const bool matches = glob ? ::fnmatch(key.c_str(), entry.key.c_str(), FNM_NOESCAPE) == 0 : entry.key == key;
      if (!matches) continue;
      found = true;
      if (std::find(entries.begin(), entries.end(), &entry) == entries.end()) entries.push_back(&entry);
    }
    if (found) continue;
    std::vector<std::string_view> names;
    for (const MatrixEntry& entry : checkout.entries) names.push_back(entry.key);
    const auto nearest = base::nearest(key, names);
    out.add(diag::make(rule::plan_unknown_entry,
                       fmt::format("\"{}\" {} matrix entry", key, glob ? "matches no" : "is no"),
                       nearest ? fmt::format("did you mean \"{}\"?", *nearest) : std::string()));
  }
  return entries;
}

}  // namespace

MatrixRows full_sweep(const Checkout& checkout, const FullSweep& options) {
  diag::Diagnostics diagnostics;
  check_runner_types(checkout, options, diagnostics);
  RowCollector collector(checkout, options.filter, diagnostics);
  if (!diagnostics.has_errors())
    for (const MatrixEntry& entry : checkout.entries)
      if (selected(entry, options))
        collector.add(entry, runners_of(entry, checkout, options.filter.runner_node_filter),
                      [&](const PointView& view) { return choose_full_sweep(view, options); });
  return finish(collector.take(), options.filter.evals, std::move(diagnostics));
}

MatrixRows test_config(const Checkout& checkout, const TestConfig& options) {
  diag::Diagnostics diagnostics;
  const auto entries = resolve(checkout, options.config_keys, diagnostics);
  RowCollector collector(checkout, options.filter, diagnostics);
  if (!diagnostics.has_errors())
    for (const MatrixEntry* entry : entries)
      collector.add(*entry, test_runners_of(*entry, checkout, options.filter.runner_node_filter),
                    [&](const PointView& view) { return choose_test_config(view, options); });
  return finish(collector.take(), options.filter.evals, std::move(diagnostics));
}

}  // namespace sweep::plan
