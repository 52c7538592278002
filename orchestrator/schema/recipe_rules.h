// What the sections of a recipe must agree on. Private to this module.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/schema/config.h"

namespace sweep::schema {

// Concurrencies of a recipe's benchmark: a list, or text like "4x8x16". Nothing if one is no positive whole number.
std::optional<std::vector<int64_t>> recipe_concurrencies(const yaml::Node& node);

// Every variant of a file by itself.
void check_recipe(const RecipeFile& file, diag::Diagnostics& out);

}  // namespace sweep::schema
