#include "orchestrator/plan/recipe_groups.h"

#include <algorithm>
#include <unordered_map>

namespace sweep::plan {

Row RecipeGroup::recipe() const {
  Row recipe = first->row;
  for (const char* field : {"conc", "exp-name", "recipe-fingerprint"}) recipe.erase(field);
  return recipe;
}

std::vector<RecipeGroup> group_by_recipe(const std::vector<BuiltRow>& rows) {
  std::vector<RecipeGroup> groups;
  std::unordered_map<std::string, size_t> index;
  for (const BuiltRow& built : rows) {
    const auto [place, inserted] = index.emplace(recipe_key(built.row), groups.size());
    if (inserted) groups.push_back({place->first, &built, {}});
    for (const int64_t value : built.concurrencies()) groups[place->second].concurrencies.insert(value);
  }
  return groups;
}

const RecipeGroup* find_group(const std::vector<RecipeGroup>& groups, const std::string& key) {
  const auto found = std::find_if(groups.begin(), groups.end(), [&](const RecipeGroup& g) { return g.key == key; });
  return found == groups.end() ? nullptr : &*found;
}

Nearest nearest_group(const RecipeGroup& asked, const std::vector<const RecipeGroup*>& candidates) {
  Nearest best;
  for (const RecipeGroup* candidate : candidates) {
    if (candidate->first->kind != asked.first->kind || candidate->first->entry->key != asked.first->entry->key)
      continue;
    std::vector<Difference> changes = differences(asked.recipe(), candidate->recipe());
    if (best.group == nullptr || changes.size() < best.changes.size()) best = {candidate, std::move(changes)};
  }
  return best;
}

}  // namespace sweep::plan
