// Rules between entries and what they refer to: runners, recipes, pins, acceptance curves. Private to this module.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/schema/checkout.h"
#include "orchestrator/schema/points.h"
#include "orchestrator/schema/recipe_compare.h"
#include "orchestrator/schema/recipe_index.h"

namespace sweep::schema {

class BindingRules {
 public:
  BindingRules(const Checkout& checkout, diag::Diagnostics& out)
      : checkout_(checkout), out_(out), recipes_(checkout.recipes) {}

  // Checks one entry and returns its points with their recipes. `with_settings`: recipes named by CONFIG_FILE too.
  std::vector<BoundRecipe> check(const MatrixEntry& entry, const std::vector<PointView>& views, bool with_settings);

  // Reports what is said once per file.
  void finish();

 private:
  // A recipe as an entry names it.
  struct Reference {
    std::string text;
    yaml::Range where;
    std::string path;
    bool from_settings = false;
  };
  // References of one file that cannot be opened, and why.
  struct Unresolved {
    const MatrixEntry* entry = nullptr;
    Reference first;
    std::string recipe;
    size_t count = 0;
  };

  void check_runner(const MatrixEntry& entry);
  void check_pin(const MatrixEntry& entry);
  void check_fit(const PointView& view, int64_t gpus_per_node);
  std::vector<Reference> references_of(const PointView& view, bool with_settings) const;
  void bind(const PointView& view, const Reference& reference, std::vector<BoundRecipe>& bound);
  void report_missing(const PointView& view, const Reference& reference, const std::string& recipe);
  void report_variant(const PointView& view, const Reference& reference, const RecipeFile& file,
                      const std::string& selector);

  const Checkout& checkout_;
  diag::Diagnostics& out_;
  RecipeIndex recipes_;
  std::map<const yaml::Document*, Unresolved> elsewhere_;
  std::map<std::pair<const yaml::Document*, std::string>, Unresolved> missing_;  // by folder
};

}  // namespace sweep::schema
