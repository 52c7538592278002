// Acceptance control of entries and recipes: where a length comes from, and that nothing else forces one. Private to
// this module.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/schema/acceptance_control.h"
#include "orchestrator/schema/config.h"
#include "orchestrator/schema/golden_curves.h"
#include "orchestrator/schema/recipe_compare.h"
#include "orchestrator/schema/settings.h"

namespace sweep::schema {

// Whether an entry asks for a length that the engine does not reach by itself.
bool forces_length(const std::optional<Acceptance>& acceptance);

class AcceptanceRules {
 public:
  AcceptanceRules(const std::vector<AcceptanceCurve>& curves, diag::Diagnostics& out) : curves_(curves), out_(out) {}

  // The points of one entry with their recipes. `with_settings`: additional-settings too.
  void check(const std::vector<PointView>& views, const std::vector<BoundRecipe>& bound, bool with_settings);

  // One recipe by itself.
  void check(const RecipeFile& file);

 private:
  void check_golden(const PointView& view);
  void check_bound(const BoundRecipe& bound);
  void check_control(const BoundRecipe& bound, const AcceptanceControl& control);
  void check_settings_of(const PointView& view, const BoundRecipe* bound);
  void check_switch(const PointView& view, const std::vector<Setting>& settings);
  void check_length(const PointView& view, const Setting& length, std::optional<int64_t> drafts);
  void check_injection(const PointView& view, const Setting& on, const BoundRecipe& bound);
  void check_variant(const RecipeFile& file, const RecipeVariant& variant);
  void check_drafts_only(const RecipeFile& file, const AcceptanceControl& control, std::optional<int64_t> drafts);

  // Policy is law inside the checkout; files from elsewhere have their own maintainers.
  void add(const MatrixEntry& entry, diag::Diagnostic diagnostic);

  const std::vector<AcceptanceControl>& controls_of(const RecipeVariant& variant);

  GoldenCurves curves_;
  diag::Diagnostics& out_;
  std::map<const RecipeVariant*, std::vector<AcceptanceControl>> controls_;
};

}  // namespace sweep::schema
