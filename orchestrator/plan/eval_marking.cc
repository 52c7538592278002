#include "orchestrator/plan/eval_marking.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace sweep::plan {

namespace {

constexpr int64_t kLeastConcurrency = 16;  // below it an evaluation would take too long
constexpr int64_t kIsl = 8192;             // the only lengths whose fixed rows are evaluated
constexpr int64_t kOsl = 1024;

bool is_fixed(const BuiltRow& built) {
  return built.kind == RowKind::kSingleFixed || built.kind == RowKind::kMultiFixed;
}

bool has_eval_lengths(const BuiltRow& built) {
  return is_fixed(built) && built.row["isl"] == kIsl && built.row["osl"] == kOsl;
}

// Rows whose values of `fields` are equal have equal keys; the order of keys inside values does not matter.
std::string group_of(const Row& row, std::initializer_list<const char*> fields) {
  std::string key;
  for (const char* field : fields) {
    const auto found = row.find(field);
    key += found == row.end() ? std::string("null") : compact_text(*found);
    key += ',';
  }
  return key;
}

// Everything that makes a deployment what it is, without its concurrencies.
std::string topology_of(const Row& row) {
  constexpr std::array<std::string_view, 6> kOfThePoint{"conc",      "run-eval",       "eval-only",
                                                        "eval-conc", "eval-all-concs", "exp-name"};
  return compact_text(row, kOfThePoint);
}

// Of one curve, the highest and the middle concurrency.
void mark_single_fixed(std::vector<BuiltRow>& rows) {
  std::map<std::string, std::vector<BuiltRow*>> groups;
  for (BuiltRow& built : rows)
    if (built.kind == RowKind::kSingleFixed && has_eval_lengths(built) && built.row["conc"] >= kLeastConcurrency)
      groups[group_of(built.row,
                      {"model", "runner", "framework", "precision", "isl", "osl", "spec-decoding", "dp-attn"})]
          .push_back(&built);
  for (auto& [key, group] : groups) {
    std::set<int64_t> values;
    for (const BuiltRow* built : group) values.insert(built->row["conc"].get<int64_t>());
    const std::vector<int64_t> sorted(values.begin(), values.end());
    for (BuiltRow* built : group) {
      const auto concurrency = built->row["conc"].get<int64_t>();
      if (concurrency == sorted.back() || concurrency == sorted[sorted.size() / 2]) built->row["run-eval"] = true;
    }
  }
}

// Of one topology, the row with the largest concurrency that is high enough.
void mark_multi(std::vector<BuiltRow>& rows, RowKind kind) {
  struct Best {
    BuiltRow* built = nullptr;
    int64_t concurrency = 0;
  };
  std::map<std::string, Best> groups;
  for (BuiltRow& built : rows) {
    if (built.kind != kind || (kind == RowKind::kMultiFixed && !has_eval_lengths(built))) continue;
    Best& best = groups[topology_of(built.row)];
    for (const Row& value : built.row["conc"]) {
      const auto concurrency = value.get<int64_t>();
      if (concurrency >= kLeastConcurrency && concurrency > best.concurrency) best = {&built, concurrency};
    }
  }
  for (auto& [key, best] : groups) {
    if (best.built == nullptr) continue;
    best.built->row["run-eval"] = true;
    best.built->row["eval-conc"] = best.concurrency;
  }
}

void mark_single_agentic(std::vector<BuiltRow>& rows) {
  std::map<std::string, BuiltRow*> groups;
  for (BuiltRow& built : rows) {
    if (built.kind != RowKind::kSingleAgentic) continue;
    BuiltRow*& best = groups[group_of(built.row, {"model", "runner", "framework", "precision"})];
    if (best == nullptr || built.row["conc"] > best->row["conc"]) best = &built;
  }
  for (auto& [key, best] : groups) best->row["run-eval"] = true;
}

// Rows of one topology become one row, in the first one's place, with all their concurrencies.
void merge_multi(std::vector<BuiltRow>& rows) {
  std::map<std::string, size_t> first;
  std::vector<BuiltRow> merged;
  for (BuiltRow& built : rows) {
    const bool fixed = built.kind == RowKind::kMultiFixed && has_eval_lengths(built);
    if (!fixed && built.kind != RowKind::kMultiAgentic) {
      merged.push_back(std::move(built));
      continue;
    }
    const auto [place, inserted] = first.emplace(topology_of(built.row), merged.size());
    if (inserted) {
      merged.push_back(std::move(built));
    } else {
      for (const Row& value : built.row["conc"]) merged[place->second].row["conc"].push_back(value);
    }
  }
  for (const auto& [key, index] : first) {
    Row& row = merged[index].row;
    std::set<int64_t> values;
    for (const Row& value : row["conc"]) values.insert(value.get<int64_t>());
    row["conc"] = std::vector<int64_t>(values.begin(), values.end());
    row["run-eval"] = true;
    row.erase("eval-conc");
    if (merged[index].kind == RowKind::kMultiFixed)
      row["eval-all-concs"] = true;
    else if (!values.empty())
      row["eval-conc"] = *values.rbegin();
  }
  rows = std::move(merged);
}

void mark_all(std::vector<BuiltRow>& rows) {
  for (BuiltRow& built : rows)
    if (built.kind == RowKind::kSingleAgentic || (built.kind == RowKind::kSingleFixed && has_eval_lengths(built)))
      built.row["run-eval"] = true;
  merge_multi(rows);
}

}  // namespace

void mark_evals(std::vector<BuiltRow>& rows, Evals evals) {
  if (evals == Evals::kNone) return;
  for (BuiltRow& built : rows) built.row["run-eval"] = false;
  mark_single_fixed(rows);
  mark_multi(rows, RowKind::kMultiFixed);
  if (evals == Evals::kDefault) return;
  mark_single_agentic(rows);
  mark_multi(rows, RowKind::kMultiAgentic);
  if (evals == Evals::kAll) mark_all(rows);
  std::erase_if(rows, [](const BuiltRow& built) { return built.row["run-eval"] != true; });
  for (BuiltRow& built : rows) built.row["eval-only"] = true;
}

}  // namespace sweep::plan
