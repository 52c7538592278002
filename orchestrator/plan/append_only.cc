#include "orchestrator/plan/append_only.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "orchestrator/diag/rules/changes.h"
#include "orchestrator/plan/recipe_groups.h"
#include "orchestrator/schema/rules.h"

namespace sweep::plan {

namespace {

namespace rule = diag::rule;
using schema::ChangelogEntry;
using schema::Checkout;
using schema::MatrixEntry;
using schema::ScenarioKind;

constexpr std::string_view kOtherwise = "an append-only change adds points only: undo this, or drop \"append-only\"";

const yaml::Node& written(const MatrixEntry& entry) {
  static const yaml::Node nothing;
  const yaml::Node* node = entry.document->root().find(entry.key);
  return node == nullptr ? nothing : *node;
}

const yaml::Node* scenarios_of(const MatrixEntry& entry) {
  return written(entry).find("scenarios");
}

diag::SourceSpan place_of(const ChangelogEntry& entry) {
  return entry.document->span(entry.append_only ? entry.append_only.where : entry.where);
}

std::string quoted_list(const std::set<int64_t>& values) {
  std::string text;
  for (const int64_t value : values) text += fmt::format("{}{}", text.empty() ? "" : ", ", value);
  return text;
}

class ScopeCheck {
 public:
  ScopeCheck(const Revisions& revisions, const AppendSelection& selection, diag::Diagnostics& out)
      : base_(revisions.base), head_(revisions.head), selection_(selection), out_(out) {}

  void run() {
    check_unselected();
    for (const auto& [name, item] : selection_.items) {
      const MatrixEntry* base = base_.find_entry(name);
      const MatrixEntry* head = head_.find_entry(name);
      if (base != nullptr && head != nullptr)
        check_selected(*base, *head, item);
      else if (base == nullptr)
        report_new(name, item);
    }
  }

 private:
  void check_unselected() {
    const auto is_selected = [&](const MatrixEntry& entry) { return selection_.items.contains(entry.key); };
    for (const MatrixEntry& head : head_.entries) {
      if (is_selected(head)) continue;
      const MatrixEntry* base = base_.find_entry(head.key);
      if (base == nullptr) {
        report(rule::changes_unselected_entry, head, head.key_where, {},
               fmt::format("entry \"{}\" is new, but the append-only change does not select it", head.key));
        continue;
      }
      const auto changes = differences(value_row(written(*base)), value_row(written(head)));
      if (changes.empty()) continue;
      report(rule::changes_unselected_entry, head, locate(written(head), changes.front().steps).where,
             changes.front().path(),
             fmt::format("entry \"{}\" is changed, but the append-only change does not select it: {}", head.key,
                         difference_text(changes)));
    }
    for (const MatrixEntry& base : base_.entries)
      if (!is_selected(base) && head_.find_entry(base.key) == nullptr)
        report_at_selection(rule::changes_unselected_entry,
                            fmt::format("entry \"{}\" is removed by an append-only change", base.key), base);
  }

  void check_selected(const MatrixEntry& base, const MatrixEntry& head, const AppendSelection::Item& item) {
    const yaml::Node* before = scenarios_of(base);
    const yaml::Node* after = scenarios_of(head);
    if (before == nullptr || after == nullptr) return;  // an error of the file, reported with it
    bool same_scenarios = true;
    for (const auto& [from, to, word] : {std::tuple{after, before, "adds"}, std::tuple{before, after, "removes"}}) {
      for (const yaml::Entry& scenario : from->entries) {
        if (to->find(scenario.key) != nullptr) continue;
        same_scenarios = false;
        const yaml::Range where = from == after ? scenario.key_where : head.key_where;
        report(rule::changes_scenario_set, head, where, "scenarios." + scenario.key,
               fmt::format("the append-only change {} the scenario \"{}\" {} \"{}\"", word, scenario.key,
                           from == after ? "to" : "of", head.key),
               &item);
      }
    }
    if (!same_scenarios) return;
    const bool leaves_some_out =
        std::any_of(before->entries.begin(), before->entries.end(),
                    [&](const yaml::Entry& scenario) { return !is_selected(item, scenario.key); });
    for (const Difference& change : differences(value_row(written(base)), value_row(written(head)))) {
      const yaml::Range where = locate(written(head), change.steps).where;
      if (change.steps.front().key != "scenarios") {
        if (leaves_some_out)
          report(rule::changes_entry_wide, head, where, change.path(),
                 fmt::format("\"{}\" changes for all scenarios of \"{}\", but only {} is selected: {}",
                             change.steps.front().key, head.key, selected_text(item), change.text()),
                 &item);
      } else if (change.steps.size() > 1 && !is_selected(item, change.steps[1].key)) {
        report(rule::changes_unselected_scenario, head, where, change.path(),
               fmt::format("scenario \"{}\" of \"{}\" is changed, but only {} is selected: {}", change.steps[1].key,
                           head.key, selected_text(item), change.text()),
               &item);
      }
    }
  }

  static bool is_selected(const AppendSelection::Item& item, std::string_view scenario) {
    const auto kind = schema::parse_choice<ScenarioKind>(scenario);
    return kind && item.scenarios.contains(*kind);
  }

  static std::string selected_text(const AppendSelection::Item& item) {
    std::string text;
    for (const ScenarioKind kind : item.scenarios)
      text += fmt::format("{}\"{}\"", text.empty() ? "" : " and ", schema::choice_name(kind));
    return text;
  }

  void report_new(const std::string& name, const AppendSelection::Item& item) {
    diag::Diagnostic d = diag::make_at(
        rule::changes_not_in_base, item.by->document->span(item.key->where),
        fmt::format("entry \"{}\" is not in the base revision, so the change cannot be append-only for it", name),
        "select a new entry in a regular changelog entry, without \"append-only\"");
    if (const MatrixEntry* head = head_.find_entry(name))
      d.notes.push_back({"the new entry", head->document->span(head->key_where)});
    out_.add(std::move(d));
  }

  void report(diag::RuleId rule, const MatrixEntry& head, yaml::Range where, const std::string& path,
              std::string message, const AppendSelection::Item* item = nullptr) {
    diag::Diagnostic d = schema::finding(rule, *head.document, where, path.empty() ? head.key : head.key + "." + path,
                                         std::move(message), std::string(kOtherwise));
    const ChangelogEntry& by = item != nullptr ? *item->by : *selection_.items.begin()->second.by;
    d.notes.push_back({"append-only is stated here", place_of(by)});
    out_.add(std::move(d));
  }

  void report_at_selection(diag::RuleId rule, std::string message, const MatrixEntry& base) {
    diag::Diagnostic d = diag::make_at(rule, place_of(*selection_.items.begin()->second.by), std::move(message),
                                       std::string(kOtherwise));
    d.notes.push_back({"it was here", base.document->span(base.key_where)});
    out_.add(std::move(d));
  }

  const Checkout& base_;
  const Checkout& head_;
  const AppendSelection& selection_;
  diag::Diagnostics& out_;
};

// The curve of a dashboard that a row is a point of: what stays when recipes are added to it.
std::string curve_key(const Row& row) {
  const auto field = [&](const char* name) { return row.value(name, Row()); };
  const bool agentic = row.contains("scenario-type");
  const auto hardware = [&](const char* role) {
    const auto worker = row.find(role);
    return worker == row.end() ? Row() : worker->value("hardware", Row());
  };
  const bool offloads = row.value("kv-offloading", "none") != "none";
  const Row key = {field("model"),
                   field("model-prefix"),
                   field("precision"),
                   field("framework"),
                   field("runner"),
                   row.value("disagg", false),
                   agentic,
                   agentic ? Row() : field("isl"),
                   agentic ? Row() : field("osl"),
                   offloads,
                   agentic ? Row("") : field("spec-decoding"),
                   hardware("prefill"),
                   hardware("decode")};
  return key.dump(-1, ' ', false, Row::error_handler_t::replace);
}

class AddedRows {
 public:
  AddedRows(const RowPair& rows, const ChangelogEntry& entry, diag::Diagnostics& out)
      : rows_(rows), entry_(entry), out_(out), base_(group_by_recipe(rows.base)), head_(group_by_recipe(rows.head)) {}

  std::vector<BuiltRow> run() {
    if (base_.empty()) {
      report_entry(rule::changes_no_base_point, "nothing that the append-only entry selects has a point in the base",
                   "a first point starts a curve: use a regular entry");
      return {};
    }
    bool all_kept = true;
    for (const RecipeGroup& group : base_) all_kept = check_kept(group) && all_kept;
    std::vector<BuiltRow> added = collect();
    if (added.empty())
      report_entry(rule::changes_no_new_point, "the append-only entry adds no point",
                   "add concurrencies or recipes to what it selects, or drop the entry");
    if (all_kept) check_curves(added);  // a changed recipe would be reported again as a new one
    return added;
  }

 private:
  // False if the recipe itself is gone.
  bool check_kept(const RecipeGroup& group) {
    const RecipeGroup* same = find_group(head_, group.key);
    if (same == nullptr) {
      report_changed(group);
      return false;
    }
    std::set<int64_t> removed;
    std::set_difference(group.concurrencies.begin(), group.concurrencies.end(), same->concurrencies.begin(),
                        same->concurrencies.end(), std::inserter(removed, removed.end()));
    if (removed.empty()) return true;
    report(rule::changes_point_removed, *same->first,
           fmt::format("concurrency {} of \"{}\" is removed by an append-only change", quoted_list(removed),
                       group.first->entry->key),
           group.first);
    return true;
  }

  void report_changed(const RecipeGroup& group) {
    std::vector<const RecipeGroup*> candidates;
    for (const RecipeGroup& head : head_)
      if (find_group(base_, head.key) == nullptr) candidates.push_back(&head);
    const Nearest nearest = nearest_group(group, candidates);
    if (nearest.group != nullptr) {
      report(rule::changes_recipe_changed, *nearest.group->first,
             fmt::format("a recipe of \"{}\" is changed by an append-only change: {}", group.first->entry->key,
                         difference_text(nearest.changes)),
             group.first);
      return;
    }
    diag::Diagnostic d =
        diag::make_at(rule::changes_recipe_changed, place_of(entry_),
                      fmt::format("a recipe of \"{}\" with concurrency {} is removed by an append-only change",
                                  group.first->entry->key, quoted_list(group.concurrencies)),
                      std::string(kOtherwise));
    d.notes.push_back({"it was here", group.first->where()});
    out_.add(std::move(d));
  }

  std::vector<BuiltRow> collect() {
    std::unordered_map<std::string, std::set<int64_t>> known;  // of the base, then also what was added
    for (const RecipeGroup& group : base_) known[group.key] = group.concurrencies;
    std::vector<BuiltRow> added;
    for (const BuiltRow& built : rows_.head) {
      std::set<int64_t>& seen = known[recipe_key(built.row)];
      std::vector<int64_t> values;
      for (const int64_t value : built.concurrencies())
        if (seen.insert(value).second) values.push_back(value);
      if (values.empty()) continue;
      added.push_back(built);
      if (built.row["conc"].is_array()) added.back().row["conc"] = values;
    }
    return added;
  }

  void check_curves(const std::vector<BuiltRow>& added) {
    std::unordered_map<std::string, std::set<std::string>> images;
    std::unordered_map<std::string, const BuiltRow*> first;
    for (const BuiltRow& built : rows_.base) {
      const std::string key = curve_key(built.row);
      images[key].insert(built.entry->image.value);
      first.emplace(key, &built);
    }
    std::set<std::string> reported;  // one finding a recipe
    for (const BuiltRow& built : added) {
      const std::string key = curve_key(built.row);
      const std::string& image = built.entry->image.value;
      const auto known = images.find(key);
      if (known != images.end() && known->second == std::set<std::string>{image}) continue;
      if (!reported.insert(recipe_key(built.row)).second) continue;
      if (known == images.end())
        report(rule::changes_new_curve, built,
               fmt::format("a new recipe of \"{}\" begins a curve that the base does not have ({})", built.entry->key,
                           curve_text(built)),
               nullptr);
      else
        report(rule::changes_curve_image, built,
               fmt::format("the new points of \"{}\" run image \"{}\", the curve in the base {}", built.entry->key,
                           image, image_text(known->second)),
               first.at(key));
    }
  }

  static std::string curve_text(const BuiltRow& built) {
    const std::string spec = built.row.at("spec-decoding").get<std::string>();
    if (built.is_agentic())
      return fmt::format("agentic, offloading {}", built.row.at("kv-offloading").get<std::string>());
    return fmt::format("{}/{}, spec-decoding {}", built.row.at("isl").dump(), built.row.at("osl").dump(), spec);
  }

  static std::string image_text(const std::set<std::string>& images) {
    if (images.size() > 1) return fmt::format("has {} images", images.size());
    return fmt::format("runs \"{}\"", *images.begin());
  }

  void report_entry(diag::RuleId rule, std::string message, std::string help) {
    diag::Diagnostic d = diag::make_at(rule, place_of(entry_), std::move(message), std::move(help));
    out_.add(std::move(d));
  }

  void report(diag::RuleId rule, const BuiltRow& head, std::string message, const BuiltRow* base) {
    diag::Diagnostic d = diag::make_at(rule, head.where(), std::move(message), std::string(kOtherwise));
    d.path = head.path();
    if (base != nullptr) d.notes.push_back({"the base has it here", base->where()});
    d.notes.push_back({"append-only is stated here", place_of(entry_)});
    out_.add(std::move(d));
  }

  const RowPair& rows_;
  const ChangelogEntry& entry_;
  diag::Diagnostics& out_;
  std::vector<RecipeGroup> base_, head_;
};

}  // namespace

void check_append_scope(const Revisions& revisions, const AppendSelection& selection, diag::Diagnostics& out) {
  ScopeCheck(revisions, selection, out).run();
}

std::vector<BuiltRow> added_rows(const RowPair& rows, const ChangelogEntry& entry, diag::Diagnostics& out) {
  return AddedRows(rows, entry, out).run();
}

}  // namespace sweep::plan
