// What an entry says against what its recipe starts. Private to this module.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/schema/checkout.h"
#include "orchestrator/schema/engine_flags.h"
#include "orchestrator/schema/points.h"
#include "orchestrator/schema/recipe_roles.h"

namespace sweep::schema {

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
    diag::Severity severity = diag::Severity::kError;
  };

  void add(Mismatch mismatch);
  void soften(diag::RuleId rule);  // the one added last
  void compare_text(diag::RuleId rule, std::string_view field_name, const Text& ours, const Text& theirs,
                    std::string_view recipe_field);
  void compare_identity();
  void compare_repository(const Text& text, std::string_view recipe_field);
  void compare_engine();
  void compare_gpu_type(const RecipeResources& resources);
  void compare_nodes(const RecipeResources& resources);
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
