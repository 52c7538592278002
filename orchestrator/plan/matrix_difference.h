// The points of two revisions of a matrix, compared by recipe. Private to this module.
#pragma once

#include <vector>

#include "orchestrator/plan/row.h"
#include "orchestrator/plan/summary.h"

namespace sweep::plan {

std::vector<RecipeChange> compare_rows(const std::vector<BuiltRow>& base, const std::vector<BuiltRow>& head);

// "8k1k tp8 ep8 mtp", "agentic p1xtp4ep4 d2xtp8 kvdram"
std::string recipe_text(const BuiltRow& built);

}  // namespace sweep::plan
