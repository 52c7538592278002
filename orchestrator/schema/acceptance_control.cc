// Acceptance control inside recipes. Entries state the acceptance length and the engine's adapter renders it; a recipe
// that forces one of its own would undo or double it.
#include <fmt/format.h>

#include <array>
#include <charconv>

#include "orchestrator/diag/rules/matrix.h"
#include "orchestrator/schema/engine_flags.h"
#include "orchestrator/schema/points.h"
#include "orchestrator/schema/rules.h"

namespace sweep::schema {

namespace {

namespace rule = diag::rule;

constexpr std::string_view kSglangLength = "SGLANG_SIMULATE_ACC_LEN";
constexpr std::string_view kTrtllmDrafts = "TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS";
constexpr std::string_view kSynthetic = "synthetic";
constexpr auto kRoles = std::to_array<Role>({Role::kAggregated, Role::kPrefill, Role::kDecode});

struct Control {
  std::string name;
  yaml::Range where;
};

// What in a role of a recipe forces the acceptance length.
std::vector<Control> controls_of(const Recipe& recipe, Role role) {
  std::vector<Control> controls;
  for (const std::string_view variable : {kSglangLength, kTrtllmDrafts})
    if (const NamedText* found = find_environment(recipe, role, variable))
      controls.push_back({std::string(variable), found->name_where});
  const EngineFlags flags = read_engine_flags(recipe, role);
  if (flags.rejection_sampling.value == kSynthetic)
    controls.push_back({"rejection_sample_method: synthetic", flags.rejection_sampling.where});
  return controls;
}

void check_adaptive(const RecipeFile& file, const Recipe& recipe, Role role, diag::Diagnostics& out) {
  const EngineFlags flags = read_engine_flags(recipe, role);
  if (!flags.adaptive_verification.value || flags.rejection_sampling.value != kSynthetic) return;
  out.add(
      finding(rule::acceptance_forced_with_adaptive, *file.document, flags.adaptive_verification.where, "backend",
              "a forced acceptance length together with adaptive verification",
              "set enable_adaptive_verification to false: a step that verifies fewer drafts cannot commit the asked "
              "number of tokens"));
}

void check_drafts_only(const RecipeFile& file, const Recipe& recipe, Role role, diag::Diagnostics& out) {
  const NamedText* variable = find_environment(recipe, role, kTrtllmDrafts);
  if (variable == nullptr) return;
  const std::string& text = variable->value.value;
  double drafts = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), drafts);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size() || drafts < 0) return;
  out.add(finding(rule::acceptance_counts_drafts_only, *file.document, variable->value.where, "backend",
                  fmt::format("{} counts accepted drafts only: with {} a step commits {:.6g} tokens", kTrtllmDrafts,
                              text, drafts + 1),
                  fmt::format("for an acceptance length of {:.6g} write {:.6g}", drafts, drafts - 1)));
}

}  // namespace

void check_acceptance_control(const RecipeFile& recipe, diag::Diagnostics& out) {
  for (const RecipeVariant& variant : recipe.variants) {
    for (const Role role : kRoles) {
      check_adaptive(recipe, variant.recipe, role, out);
      check_drafts_only(recipe, variant.recipe, role, out);
    }
  }
}

void check_acceptance_control(const MatrixEntry& entry, const std::vector<PointView>& views, const Checkout& checkout,
                              diag::Diagnostics& out) {
  for (const PointView& view : views) {
    const auto& acceptance = entry.acceptance_of(*view.point);
    const Text& reference = entry.recipe_of(*view.point);
    if (!acceptance || !reference) continue;
    const RecipeVariant* variant = find_recipe_variant(checkout, *reference);
    const RecipeFile* file = checkout.find_recipe(parse_recipe_reference(*reference).path);
    if (variant == nullptr) continue;
    for (const Role role : kRoles) {
      for (const Control& control : controls_of(variant->recipe, role)) {
        diag::Diagnostic d = finding(rule::acceptance_set_in_recipe, *file->document, control.where, "backend",
                                     fmt::format("the recipe forces the acceptance length itself ({})", control.name),
                                     "remove it: the length is rendered from the matrix entry");
        d.notes.push_back(
            {fmt::format("entry \"{}\" states it here", entry.key), entry.document->span(acceptance->where)});
        out.add(std::move(d));
      }
    }
  }
}

}  // namespace sweep::schema
