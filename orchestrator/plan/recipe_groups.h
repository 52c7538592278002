// Rows by recipe: everything but the concurrency. Private to this module.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "orchestrator/plan/difference.h"
#include "orchestrator/plan/row.h"

namespace sweep::plan {

struct RecipeGroup {
  std::string key;                  // of row.h
  const BuiltRow* first = nullptr;  // of its rows
  std::set<int64_t> concurrencies;

  Row recipe() const;  // the row without what depends on the concurrency
};

// In the order of their first rows. The rows must outlive the result.
std::vector<RecipeGroup> group_by_recipe(const std::vector<BuiltRow>& rows);

const RecipeGroup* find_group(const std::vector<RecipeGroup>& groups, const std::string& key);

// The candidate of the same entry and kind that differs in the fewest fields; null if there is none.
struct Nearest {
  const RecipeGroup* group = nullptr;
  std::vector<Difference> changes;  // from the asked group to this one
};
Nearest nearest_group(const RecipeGroup& asked, const std::vector<const RecipeGroup*>& candidates);

}  // namespace sweep::plan
