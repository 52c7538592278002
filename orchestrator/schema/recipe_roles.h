// A point bound to a recipe: which of the point's workers run in which role of the recipe. Private to this module.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/schema/engine_flags.h"
#include "orchestrator/schema/points.h"

namespace sweep::schema {

// One point bound to one recipe variant.
struct BoundRecipe {
  const PointView* view = nullptr;
  const RecipeFile* file = nullptr;
  const RecipeVariant* variant = nullptr;
  yaml::Range reference;       // where the entry names the recipe
  bool from_settings = false;  // by CONFIG_FILE in additional-settings, whose recipe chooses the concurrencies
};

// A group of workers as the entry describes it, and the flags of the role that runs it.
struct BoundGroup {
  Integer num_worker, tp, pp, dcp, pcp, ep;
  Boolean dp_attn;
  yaml::Range where;
  std::string path;
  Role role = Role::kAggregated;

  int64_t gpus_per_worker() const { return tp.value_or(1) * pp.value_or(1) * pcp.value_or(1); }
};

bool is_disaggregated(const Recipe& recipe);

// The groups of a point in the roles of its recipe. An aggregated recipe of a multi-node entry serves its prefill
// group; the decode group then has no worker.
std::vector<BoundGroup> groups_of(const BoundRecipe& bound);

// The role whose engine verifies drafts.
Role decoding_role(const BoundRecipe& bound);

// What the recipe reserves for a role. Aggregated workers have one node unless more are stated.
struct RoleResources {
  Integer nodes, workers, gpus;
  std::string_view name;
};
RoleResources resources_of(const RecipeResources& resources, Role role);

}  // namespace sweep::schema
