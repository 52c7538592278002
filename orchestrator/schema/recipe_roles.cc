#include "orchestrator/schema/recipe_roles.h"

namespace sweep::schema {

namespace {

BoundGroup group_of(const Worker& worker, Role role, std::string path) {
  return {.num_worker = worker.num_worker,
          .tp = worker.tp,
          .pp = worker.pp,
          .dcp = worker.dcp_size,
          .pcp = worker.pcp_size,
          .ep = worker.ep,
          .dp_attn = worker.dp_attn,
          .where = worker.where,
          .path = std::move(path),
          .role = role};
}

}  // namespace

RoleResources resources_of(const RecipeResources& r, Role role) {
  switch (role) {
    case Role::kPrefill:
      return {r.prefill_nodes, r.prefill_workers, r.gpus_per_prefill, "prefill"};
    case Role::kDecode:
      return {r.decode_nodes, r.decode_workers, r.gpus_per_decode, "decode"};
    case Role::kAggregated:
      break;
  }
  RoleResources agg{r.agg_nodes, r.agg_workers, r.gpus_per_agg, "agg"};
  if (!agg.nodes) agg.nodes = {1, r.where, true};
  return agg;
}

bool is_disaggregated(const Recipe& recipe) {
  if (!recipe.resources) return false;
  const RecipeResources& r = *recipe.resources;
  return r.prefill_nodes || r.decode_nodes || r.prefill_workers || r.decode_workers;
}

std::vector<BoundGroup> groups_of(const BoundRecipe& bound) {
  const PointView& view = *bound.view;
  const Point& point = *view.point;
  const bool split = is_disaggregated(bound.variant->recipe);
  std::vector<BoundGroup> groups;
  if (!point.is_multi_node()) {
    groups.push_back({.num_worker = {},
                      .tp = point.tp,
                      .pp = point.pp,
                      .dcp = point.dcp_size,
                      .pcp = point.pcp_size,
                      .ep = point.ep,
                      .dp_attn = point.dp_attn,
                      .where = point.tp ? point.tp.where : point.where,
                      .path = view.path});
    return groups;
  }
  if (point.prefill)
    groups.push_back(group_of(*point.prefill, split ? Role::kPrefill : Role::kAggregated, view.path + ".prefill"));
  if (point.decode && (split || point.decode->num_worker.value_or(1) != 0))
    groups.push_back(group_of(*point.decode, Role::kDecode, view.path + ".decode"));
  return groups;
}

Role decoding_role(const BoundRecipe& bound) {
  return is_disaggregated(bound.variant->recipe) ? Role::kDecode : Role::kAggregated;
}

}  // namespace sweep::schema
