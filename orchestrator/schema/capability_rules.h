// What engines, models and GPUs can do. A rule that cannot know a value stays silent. Private to this module.
#pragma once

#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/schema/points.h"
#include "orchestrator/schema/recipe_compare.h"

namespace sweep::schema {

// One entry, with the recipes of its points.
void check_capabilities(const MatrixEntry& entry, const std::vector<PointView>& views,
                        const std::vector<BoundRecipe>& bound, diag::Diagnostics& out);

// One recipe by itself.
void check_capabilities(const RecipeFile& recipe, diag::Diagnostics& out);

}  // namespace sweep::schema
