// What an entry says against what its recipe starts. Private to this module.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/schema/checkout.h"
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

// Compares all points of one entry. The same disagreement with several recipes is reported once.
class RecipeComparison {
 public:
  RecipeComparison(const MatrixEntry& entry, diag::Diagnostics& out) : entry_(entry), out_(out) {}

  void compare(const BoundRecipe& bound);
  void report();

 private:
  struct Mismatch {
    diag::RuleId rule;
    yaml::Range where;
    std::string path;
    std::string ours, theirs;  // "\"image\" is \"a\"", "is \"b\""
    std::string field;         // of the recipe
    const RecipeFile* file;
    yaml::Range recipe_where;
    size_t more = 0;  // further recipes with the same disagreement
  };

  void add(Mismatch mismatch);
  void compare_text(diag::RuleId rule, std::string_view field_name, const Text& ours, const Text& theirs,
                    std::string_view recipe_field);
  void compare_identity();
  void compare_repository(const Text& text, std::string_view recipe_field);
  void compare_engine();
  void compare_gpu_type(const RecipeResources& resources);
  void compare_group(const BoundGroup& group);
  void compare_worker_count(const BoundGroup& group, const Integer& theirs, std::string_view field);
  void compare_gpus(const BoundGroup& group);
  void compare_flags(const BoundGroup& group, const EngineFlags& flags);
  void compare_size(const BoundGroup& group, const Integer& ours, const Integer& theirs, std::string_view name);
  void compare_speculation();
  void compare_benchmark(const FixedSeqLen& fixed);
  void compare_concurrencies(const RecipeBenchmark& benchmark);
  void check_exact_lengths(const RecipeBenchmark& benchmark);

  const MatrixEntry& entry_;
  diag::Diagnostics& out_;
  const BoundRecipe* bound_ = nullptr;  // while comparing
  std::vector<Mismatch> mismatches_;
  std::map<std::string, size_t> index_;
};

}  // namespace sweep::schema
