#include "orchestrator/plan/changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "orchestrator/base/edit_distance.h"
#include "orchestrator/diag/rules/changelog.h"
#include "orchestrator/diag/rules/changes.h"
#include "orchestrator/plan/append_only.h"
#include "orchestrator/plan/buckets.h"
#include "orchestrator/plan/row_list.h"
#include "orchestrator/schema/rules.h"

namespace sweep::plan {

namespace {

namespace rule = diag::rule;
using schema::ChangelogEntry;
using schema::MatrixEntry;
using schema::ScenarioKind;

constexpr std::array<ScenarioKind, 2> kAllScenarios{ScenarioKind::kFixedSeqLen, ScenarioKind::kAgenticCoding};

struct Resolved {
  const ChangelogEntry* entry = nullptr;
  std::vector<const MatrixEntry*> selected;  // in the order of the keys, then of the files
};

std::vector<ScenarioKind> scenarios_of(const ChangelogEntry& entry) {
  std::vector<ScenarioKind> scenarios;
  for (const ScenarioKind kind : kAllScenarios)
    if (entry.scenario_type.empty() || std::any_of(entry.scenario_type.begin(), entry.scenario_type.end(),
                                                   [&](const auto& stated) { return stated.value == kind; }))
      scenarios.push_back(kind);
  return scenarios;
}

// Which scenarios of which entries have been taken: a later changelog entry gets only the rest.
class Taken {
 public:
  struct Group {
    std::vector<ScenarioKind> scenarios;
    std::vector<const MatrixEntry*> entries;
  };

  // What is left for a changelog entry, by equal sets of scenarios in the order in which they come up.
  std::vector<Group> take(const Resolved& resolved) {
    std::vector<Group> groups;
    for (const MatrixEntry* entry : resolved.selected) {
      std::vector<ScenarioKind> left;
      for (const ScenarioKind kind : scenarios_of(*resolved.entry))
        if (taken_.insert({entry->key, kind}).second) left.push_back(kind);
      if (left.empty()) continue;
      auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return g.scenarios == left; });
      if (group == groups.end()) group = groups.insert(groups.end(), {left, {}});
      group->entries.push_back(entry);
    }
    return groups;
  }

 private:
  std::set<std::pair<std::string, ScenarioKind>> taken_;
};

// Rows with workers whose prefill has a smaller ep are not evaluated.
void drop_small_prefill(std::vector<BuiltRow>& rows, const schema::Integer& least) {
  if (!least) return;
  std::erase_if(rows, [&](const BuiltRow& built) {
    const auto prefill = built.row.find("prefill");
    return prefill != built.row.end() && prefill->value("ep", int64_t{1}) < *least;
  });
}

// Of the single-node rows of one recipe the lowest concurrency, of a multi-node row its lowest one.
std::vector<BuiltRow> trimmed(std::vector<BuiltRow> rows) {
  std::unordered_map<std::string, int64_t> lowest;
  for (BuiltRow& built : rows) {
    const std::vector<int64_t> values = built.concurrencies();
    if (built.is_multi_node()) {
      if (values.size() > 1) built.row["conc"] = {*std::min_element(values.begin(), values.end())};
      continue;
    }
    const auto [place, inserted] = lowest.emplace(recipe_key(built.row), values.front());
    if (!inserted) place->second = std::min(place->second, values.front());
  }
  std::set<std::string> kept;
  std::erase_if(rows, [&](const BuiltRow& built) {
    if (built.is_multi_node()) return false;
    const std::string key = recipe_key(built.row);
    return built.concurrencies().front() != lowest.at(key) || !kept.insert(key).second;
  });
  return rows;
}

Row metadata_entry(const ChangelogEntry& entry) {
  Row row;
  row["config-keys"] = Row::array();
  for (const schema::Text& key : entry.config_keys) row["config-keys"].push_back(key.value);
  row["description"] = Row::array();
  for (const schema::Text& line : entry.description) row["description"].push_back(line.value);
  row["pr-link"] = entry.pr_link.value;
  row["evals-only"] = entry.evals_only.value;
  row["all-evals"] = entry.all_evals.value;
  row["append-only"] = entry.append_only.value;
  if (entry.eval_min_prefill_ep) row["eval-min-prefill-ep"] = *entry.eval_min_prefill_ep;
  for (const auto& kind : entry.scenario_type) row["scenario-type"].push_back(schema::choice_name(kind.value));
  return row;
}

class Planner {
 public:
  explicit Planner(const ChangesRequest& request) : request_(request) {}

  Changes run() {
    check_modes();
    std::vector<Resolved> entries = resolve();
    if (has_append_only(request_.added)) check_scope(entries);
    if (out_.has_errors()) return refused();
    // So that their wider evaluations win over those of an entry that selects the same.
    std::stable_partition(entries.begin(), entries.end(),
                          [](const Resolved& resolved) { return resolved.entry->all_evals.value; });
    for (const Resolved& resolved : entries) expand(resolved);
    if (out_.has_errors()) return refused();
    if (request_.trim_conc) throughput_ = trimmed(std::move(throughput_));
    return assemble();
  }

 private:
  Changes refused() {
    out_.normalise();
    Changes changes;
    changes.diagnostics = std::move(out_);
    return changes;
  }

  void check_modes() {
    if (request_.added.empty()) {
      out_.add(diag::make(rule::changes_no_addition, "the change adds no changelog entry",
                          "append one for what is to run; see `sweepctl explain changes/no-addition`"));
      return;
    }
    const auto find = [&](bool append_only) {
      return std::find_if(request_.added.begin(), request_.added.end(),
                          [&](const ChangelogEntry& entry) { return entry.append_only.value == append_only; });
    };
    const auto append = find(true);
    if (append == request_.added.end()) return;
    const diag::SourceSpan where = append->document->span(append->append_only.where);
    if (const auto regular = find(false); regular != request_.added.end()) {
      diag::Diagnostic d = diag::make_at(rule::changes_mixed_modes, where,
                                         "an append-only entry stands beside a regular one", "split the change in two");
      d.notes.push_back({"the regular entry", regular->document->span(regular->where)});
      out_.add(std::move(d));
    }
    if (request_.all_evals || request_.evals_only)
      out_.add(diag::make_at(rule::changelog_append_only_evals, where,
                             fmt::format("an append-only entry cannot be combined with {}",
                                         request_.all_evals ? "--all-evals" : "--evals-only"),
                             "append-only entries never yield evaluations: drop the option"));
  }

  std::vector<Resolved> resolve() {
    std::vector<Resolved> all;
    for (const ChangelogEntry& entry : request_.added) {
      Resolved resolved{&entry, {}};
      for (const schema::Text& key : entry.config_keys) {
        bool found = false;
        for (const MatrixEntry& candidate : request_.head.entries) {
          if (!schema::key_matches(*key, candidate.key)) continue;
          found = true;
          if (std::find(resolved.selected.begin(), resolved.selected.end(), &candidate) == resolved.selected.end())
            resolved.selected.push_back(&candidate);
        }
        if (!found) report_unknown(entry, key);
      }
      all.push_back(std::move(resolved));
    }
    return all;
  }

  void report_unknown(const ChangelogEntry& entry, const schema::Text& key) {
    std::vector<std::string_view> names;
    for (const MatrixEntry& candidate : request_.head.entries) names.push_back(candidate.key);
    const auto nearest = base::nearest(*key, names);
    out_.add(diag::make_at(rule::changelog_key_matches_nothing, entry.document->span(key.where),
                           fmt::format("config key \"{}\" matches no matrix entry", *key),
                           nearest ? fmt::format("did you mean \"{}\"?", *nearest)
                                   : "keys are names of matrix entries; only \"*\" is a wildcard"));
  }

  void check_scope(const std::vector<Resolved>& entries) {
    if (request_.base == nullptr) {
      const ChangelogEntry& first = *entries.front().entry;
      out_.add(diag::make_at(rule::changes_base_missing, first.document->span(first.append_only.where),
                             fmt::format("the base revision \"{}\" has no matrix to append to", request_.base_ref),
                             "compare with a revision that has the matrix and runner files"));
      return;
    }
    AppendSelection selection;
    for (const Resolved& resolved : entries) {
      for (const MatrixEntry* entry : resolved.selected) {
        AppendSelection::Item& item = selection.items[entry->key];
        for (const ScenarioKind kind : scenarios_of(*resolved.entry)) item.scenarios.insert(kind);
        if (item.by != nullptr) continue;
        item.by = resolved.entry;
        for (const schema::Text& key : resolved.entry->config_keys)
          if (item.key == nullptr && schema::key_matches(*key, entry->key)) item.key = &key;
      }
    }
    if (!selection.items.empty()) check_append_scope({*request_.base, request_.head}, selection, out_);
  }

  void expand(const Resolved& resolved) {
    const ChangelogEntry& entry = *resolved.entry;
    bool took = false;
    const size_t before = throughput_.size() + evals_.size();
    if (!request_.evals_only && !entry.evals_only.value && !entry.all_evals.value) {
      for (const Taken::Group& group : throughput_taken_.take(resolved)) {
        took = true;
        append(throughput_, throughput_of(group, entry));
      }
    }
    if (entry.append_only.value) return;
    const Evals evals = request_.all_evals || entry.all_evals.value ? Evals::kAll : Evals::kOnly;
    for (const Taken::Group& group : evals_taken_.take(resolved)) {
      took = true;
      std::vector<BuiltRow> rows = rows_of(request_.head, group, evals);
      drop_small_prefill(rows, entry.eval_min_prefill_ep);
      append(evals_, std::move(rows));
    }
    if (took && throughput_.size() + evals_.size() == before)
      out_.add(diag::make_at(rule::changes_selects_nothing, entry.document->span(entry.where),
                             "the changelog entry selects no row",
                             "its scenario-type has no point, or none qualifies for the evaluations asked for"));
  }

  std::vector<BuiltRow> throughput_of(const Taken::Group& group, const ChangelogEntry& entry) {
    std::vector<BuiltRow> head = rows_of(request_.head, group, Evals::kNone);
    if (!entry.append_only.value) return head;
    Taken::Group before{group.scenarios, {}};
    for (const MatrixEntry* selected : group.entries)
      if (const MatrixEntry* in_base = request_.base->find_entry(selected->key)) before.entries.push_back(in_base);
    const std::vector<BuiltRow> base = rows_of(*request_.base, before, Evals::kNone);
    return added_rows({base, head}, entry, out_);
  }

  std::vector<BuiltRow> rows_of(const schema::Checkout& checkout, const Taken::Group& group, Evals evals) {
    RowList list = entry_rows(checkout, group.entries, {.evals = evals, .scenario_types = group.scenarios});
    out_.add_all(list.diagnostics);
    return std::move(list.rows);
  }

  static void append(std::vector<BuiltRow>& to, std::vector<BuiltRow> rows) {
    std::move(rows.begin(), rows.end(), std::back_inserter(to));
  }

  Changes assemble() {
    throughput_ = drop_in_progress(std::move(throughput_), out_);
    evals_ = drop_in_progress(std::move(evals_), out_);
    for (BuiltRow& built : throughput_) built.row["recipe-fingerprint"] = recipe_fingerprint(built.row);
    RowBuckets buckets;
    for (const char* side : {"single_node", "multi_node"})
      for (const BuiltRow& built : throughput_)
        if (built.is_multi_node() == (side == std::string_view("multi_node")))
          buckets.add(fmt::format("{}/{}", side, bucket_of(built)), built);
    for (const char* name : {"evals", "agentic_evals", "multinode_evals", "multinode_agentic_evals"})
      for (const BuiltRow& built : evals_)
        if (dispatch_bucket(built) == name) buckets.add(name, built);
    if (!request_.is_chunked) {
      for (const auto& [name, rows] : buckets.lists)
        check_matrix_limit(rows.size(), fmt::format("bucket \"{}\"", name), out_);
      check_dispatched(buckets, out_);
    }
    return write(buckets);
  }

  Changes write(const RowBuckets& buckets) {
    Row object = {{"single_node", Row::object()}, {"multi_node", Row::object()}};
    for (const char* name : {"evals", "agentic_evals", "multinode_evals", "multinode_agentic_evals"})
      object[name] = Row::array();
    Changes changes;
    changes.buckets = texts_of(buckets);
    for (const auto& [name, rows] : buckets.lists) {
      const size_t slash = name.find('/');
      Row& list = slash == std::string::npos ? object[name] : object[name.substr(0, slash)][name.substr(slash + 1)];
      for (const BuiltRow& built : rows) list.push_back(dispatched_row(built));
      changes.count += rows.size();
    }
    Row entries = Row::array();
    for (const ChangelogEntry& entry : request_.added) entries.push_back(metadata_entry(entry));
    object["changelog_metadata"] = {
        {"base_ref", request_.base_ref}, {"head_ref", request_.head_ref}, {"entries", std::move(entries)}};
    changes.metadata = compact(object["changelog_metadata"]);
    changes.json = compact(object);
    out_.normalise();
    changes.diagnostics = std::move(out_);
    return changes;
  }

  static std::string compact(const Row& value) { return value.dump(-1, ' ', false, Row::error_handler_t::replace); }

  const ChangesRequest& request_;
  diag::Diagnostics out_;
  Taken throughput_taken_, evals_taken_;
  std::vector<BuiltRow> throughput_, evals_;
};

}  // namespace

bool has_append_only(std::span<const ChangelogEntry> added) {
  return std::any_of(added.begin(), added.end(), [](const ChangelogEntry& entry) { return entry.append_only.value; });
}

Changes plan_changes(const ChangesRequest& request) {
  return Planner(request).run();
}

}  // namespace sweep::plan
