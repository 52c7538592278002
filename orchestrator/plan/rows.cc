#include "orchestrator/plan/rows.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>

#include "orchestrator/base/edit_distance.h"
#include "orchestrator/diag/rules/matrix.h"
#include "orchestrator/plan/buckets.h"
#include "orchestrator/plan/eval_marking.h"
#include "orchestrator/plan/point_choice.h"
#include "orchestrator/plan/row_builder.h"
#include "orchestrator/plan/row_checks.h"
#include "orchestrator/plan/row_list.h"
#include "orchestrator/schema/rules.h"

namespace sweep::plan {

namespace {

namespace rule = diag::rule;
using schema::Checkout;
using schema::MatrixEntry;
using schema::PointView;
using schema::ScenarioKind;

class RowCollector {
 public:
  RowCollector(const Checkout& checkout, const RowFilter& filter, diag::Diagnostics found)
      : checkout_(checkout), filter_(filter), out_(std::move(found)) {}

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

  RowList finish() {
    report_invented();
    mark_evals(rows_, filter_.evals);
    out_.normalise();
    return {std::move(rows_), std::move(out_)};
  }

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
    if (choice.has_invented) {
      if (invented_points_++ == 0) first_invented_ = view;
      last_invented_ = choice.concurrencies.back();
    }
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

  // The peer's limits replace concurrencies; its rows must stay what they are, so people are told.
  void report_invented() {
    if (invented_points_ == 0) return;
    const MatrixEntry& entry = *first_invented_.entry;
    out_.add(schema::finding(
        rule::plan_invented_concurrency, *entry.document, first_invented_.point->where, first_invented_.path,
        fmt::format("the concurrency limits give {} point{} a concurrency that {} not list, such as {} here",
                    invented_points_, invented_points_ == 1 ? "" : "s", invented_points_ == 1 ? "it does" : "they do",
                    last_invented_),
        "use limits that are on the ladder of the points, or `plan test-config --conc`, which only keeps values"));
  }

  const Checkout& checkout_;
  const RowFilter& filter_;
  diag::Diagnostics out_;
  std::vector<BuiltRow> rows_;
  size_t invented_points_ = 0;
  PointView first_invented_;
  int64_t last_invented_ = 0;
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

MatrixRows text_of(RowList list, const RowFilter& filter) {
  MatrixRows result;
  result.count = list.rows.size();
  constexpr size_t kUsualRowBytes = 640;
  result.json.reserve(list.rows.size() * kUsualRowBytes + 2);
  result.json = "[";
  for (const BuiltRow& built : list.rows) {
    if (result.json.size() > 1) result.json += ", ";
    append_text(result.json, built.row);
  }
  result.json += "]";
  result.diagnostics = std::move(list.diagnostics);
  check_rows_left(list.rows, result.diagnostics);
  if (filter.into_buckets) {
    RowBuckets buckets;
    for (BuiltRow& built : drop_in_progress(std::move(list.rows), result.diagnostics)) {
      const std::string name = dispatch_bucket(built);
      buckets.add(name, std::move(built));
    }
    result.buckets = texts_of(buckets);
  } else {
    check_matrix_limit(list.rows.size(), "the job matrix", result.diagnostics);
  }
  result.diagnostics.normalise();
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

RowList full_sweep_rows(const Checkout& checkout, const FullSweep& options) {
  diag::Diagnostics diagnostics;
  check_runner_types(checkout, options, diagnostics);
  if (diagnostics.has_errors()) return {{}, std::move(diagnostics)};
  check_filters(checkout, options, diagnostics);
  RowCollector collector(checkout, options.filter, std::move(diagnostics));
  for (const MatrixEntry& entry : checkout.entries)
    if (selected(entry, options))
      collector.add(entry, runners_of(entry, checkout, options.filter.runner_node_filter),
                    [&](const PointView& view) { return choose_full_sweep(view, options); });
  return collector.finish();
}

RowList test_config_rows(const Checkout& checkout, const TestConfig& options) {
  diag::Diagnostics diagnostics;
  const auto entries = resolve(checkout, options.config_keys, diagnostics);
  if (diagnostics.has_errors()) return {{}, std::move(diagnostics)};
  RowCollector collector(checkout, options.filter, std::move(diagnostics));
  for (const MatrixEntry* entry : entries)
    collector.add(*entry, test_runners_of(*entry, checkout, options.filter.runner_node_filter),
                  [&](const PointView& view) { return choose_test_config(view, options); });
  return collector.finish();
}

RowList entry_rows(const Checkout& checkout, const std::vector<const MatrixEntry*>& entries, const RowFilter& filter) {
  RowCollector collector(checkout, filter, {});
  for (const MatrixEntry* entry : entries)
    collector.add(*entry, test_runners_of(*entry, checkout, filter.runner_node_filter),
                  [](const PointView& view) { return choose_test_config(view, {}); });
  return collector.finish();
}

MatrixRows full_sweep(const Checkout& checkout, const FullSweep& options) {
  return text_of(full_sweep_rows(checkout, options), options.filter);
}

MatrixRows test_config(const Checkout& checkout, const TestConfig& options) {
  return text_of(test_config_rows(checkout, options), options.filter);
}

}  // namespace sweep::plan
