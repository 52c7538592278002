#include "orchestrator/plan/matrix_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "orchestrator/plan/buckets.h"
#include "orchestrator/plan/recipe_groups.h"

namespace sweep::plan {

namespace {

using Concurrencies = std::set<int64_t>;

std::vector<int64_t> minus(const Concurrencies& a, const Concurrencies& b) {
  std::vector<int64_t> result;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(result));
  return result;
}

std::vector<int64_t> common(const Concurrencies& a, const Concurrencies& b) {
  std::vector<int64_t> result;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(result));
  return result;
}

std::string sizes_text(const Row& row, std::string_view prefix) {
  std::string text = fmt::format("{}tp{}", prefix, row.value("tp", int64_t{1}));
  for (const auto& [field, label] :
       {std::pair{"pp", "pp"}, std::pair{"dcp-size", "dcp"}, std::pair{"pcp-size", "pcp"}, std::pair{"ep", "ep"}})
    if (const int64_t size = row.value(field, int64_t{1}); size != 1)
      text += fmt::format("{}{}{}", prefix.empty() ? " " : "", label, size);
  if (row.value("dp-attn", false)) text += prefix.empty() ? " dpa" : "dpa";
  return text;
}

// The recipes of one entry in both revisions.
class EntryDifference {
 public:
  EntryDifference(const std::vector<BuiltRow>& base, const std::vector<BuiltRow>& head)
      : base_(group_by_recipe(base)), head_(group_by_recipe(head)) {}

  std::vector<RecipeChange> run() {
    for (const RecipeGroup& group : head_) {
      if (const RecipeGroup* same = find_group(base_, group.key))
        add(same, &group, {});
      else
        new_.push_back(&group);
    }
    for (const RecipeGroup& group : base_)
      if (find_group(head_, group.key) == nullptr) gone_.push_back(&group);
    pair_changed();
    for (const RecipeGroup* group : new_) add(nullptr, group, {});
    for (const RecipeGroup* group : gone_) add(group, nullptr, {});
    return std::move(changes_);
  }

 private:
  struct Pair {
    const RecipeGroup* before = nullptr;
    const RecipeGroup* after = nullptr;
    std::vector<Difference> differences;
  };

  // The most similar recipes are taken for one that was changed; beyond a few fields it is another recipe.
  void pair_changed() {
    constexpr size_t kMostFields = 4;
    std::vector<Pair> pairs;
    for (const RecipeGroup* after : new_)
      for (const RecipeGroup* before : gone_) {
        if (before->first->kind != after->first->kind) continue;
        std::vector<Difference> found = differences(before->recipe(), after->recipe());
        if (found.size() <= kMostFields) pairs.push_back({before, after, std::move(found)});
      }
    std::stable_sort(pairs.begin(), pairs.end(),
                     [](const Pair& a, const Pair& b) { return a.differences.size() < b.differences.size(); });
    for (const Pair& pair : pairs) {
      const auto before = std::find(gone_.begin(), gone_.end(), pair.before);
      const auto after = std::find(new_.begin(), new_.end(), pair.after);
      if (before == gone_.end() || after == new_.end()) continue;
      add(pair.before, pair.after, pair.differences);
      gone_.erase(before);
      new_.erase(after);
    }
  }

  void add(const RecipeGroup* before, const RecipeGroup* after, const std::vector<Difference>& fields) {
    static const Concurrencies none;
    const Concurrencies& old = before == nullptr ? none : before->concurrencies;
    const Concurrencies& now = after == nullptr ? none : after->concurrencies;
    const BuiltRow& row = *(after == nullptr ? before : after)->first;
    RecipeChange change{row.entry->key, recipe_text(row), minus(now, old), minus(old, now), {}, {}};
    if (!fields.empty()) change.changed = common(now, old);
    for (const Difference& field : fields) change.fields.push_back({field.path(), field.before, field.after});
    if (!change.added.empty() || !change.removed.empty() || !change.changed.empty() || !change.fields.empty())
      changes_.push_back(std::move(change));
  }

  std::vector<RecipeGroup> base_, head_;
  std::vector<const RecipeGroup*> new_, gone_;
  std::vector<RecipeChange> changes_;
};

struct EntryRows {
  std::string entry;
  std::vector<BuiltRow> base, head;
};

}  // namespace

std::string recipe_text(const BuiltRow& built) {
  const Row& row = built.row;
  std::string text = bucket_of(built);
  if (text.find('_') != std::string::npos) text.replace(text.find('_'), 1, "/");
  if (built.is_multi_node()) {
    for (const auto& [role, letter] : {std::pair{"prefill", 'p'}, std::pair{"decode", 'd'}}) {
      const Row& worker = row.at(role);
      text += " " + sizes_text(worker, fmt::format("{}{}x", letter, worker.value("num-worker", int64_t{1})));
    }
  } else {
    text += " " + sizes_text(row, "");
  }
  if (const std::string method = row.value("spec-decoding", "none"); method != "none") text += " " + method;
  if (const std::string offloading = row.value("kv-offloading", "none"); offloading != "none")
    text += " kv" + offloading;
  return text;
}

std::vector<RecipeChange> compare_rows(const std::vector<BuiltRow>& base, const std::vector<BuiltRow>& head) {
  std::vector<EntryRows> entries;
  std::map<std::string, size_t, std::less<>> index;
  const auto rows_of = [&](const BuiltRow& built) -> EntryRows& {
    const auto [place, inserted] = index.emplace(built.entry->key, entries.size());
    if (inserted) entries.push_back({built.entry->key, {}, {}});
    return entries[place->second];
  };
  for (const BuiltRow& built : head) rows_of(built).head.push_back(built);
  for (const BuiltRow& built : base) rows_of(built).base.push_back(built);
  std::vector<RecipeChange> changes;
  for (const EntryRows& entry : entries)
    for (RecipeChange& change : EntryDifference(entry.base, entry.head).run()) changes.push_back(std::move(change));
  return changes;
}

}  // namespace sweep::plan
