// What engines and GPUs can do. A rule that cannot know a value stays silent.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "orchestrator/diag/rules/matrix.h"
#include "orchestrator/schema/engine_flags.h"
#include "orchestrator/schema/facts.h"
#include "orchestrator/schema/points.h"
#include "orchestrator/schema/rules.h"

namespace sweep::schema {

namespace {

namespace rule = diag::rule;

constexpr std::string_view kVerifyMode = "SGLANG_RAGGED_VERIFY_MODE";
constexpr std::string_view kStatic = "static";

// Expert GEMMs with FP4 weights and FP8 activations on block-scaled tensor cores.
constexpr auto kBlockScaledBackends = std::to_array<std::string_view>({"flashinfer_mxfp4", "deep_gemm"});

// vLLM takes multiples of the block size, TensorRT-LLM the block size only; SGLang takes any number with static
// verification. `SGLANG` is left to check_static_verify.
std::string draft_limit(Engine engine, int64_t block_size, int64_t drafts) {
  if (engine == Engine::kVllm && drafts % block_size != 0) return fmt::format("a multiple of {}", block_size);
  if (engine == Engine::kTrtllm && drafts != block_size) return fmt::format("exactly {}", block_size);
  return {};
}

void check_draft_length(const PointView& view, const ModelFacts& model, diag::Diagnostics& out) {
  const MatrixEntry& entry = *view.entry;
  const Integer& drafts = entry.draft_tokens_of(*view.point);
  const Engine engine = engine_of_framework(entry.framework.value);
  const std::string limit = draft_limit(engine, model.dspark_block_size, *drafts);
  if (limit.empty()) return;
  out.add(finding(rule::capability_draft_length, *entry.document, drafts.where,
                  (view.point->num_draft_tokens ? view.path : entry.key) + ".num-draft-tokens",
                  fmt::format("{} draft tokens with {}: the DSpark head of {} has block size {}, {} needs {}", *drafts,
                              engine_name(engine), model.repo, model.dspark_block_size, engine_name(engine), limit),
                  "use SGLang with static verification, or change the number of draft tokens"));
}

void check_static_verify(const PointView& view, const ModelFacts& model, const RecipeFile& file, const Recipe& recipe,
                         diag::Diagnostics& out) {
  const MatrixEntry& entry = *view.entry;
  if (engine_of_framework(entry.framework.value) != Engine::kSglang) return;
  const Integer& drafts = entry.draft_tokens_of(*view.point);
  const Role role = view.point->is_multi_node() ? Role::kDecode : Role::kAggregated;
  const NamedText* mode = find_environment(recipe, role, kVerifyMode);
  const bool unusual = *drafts != model.dspark_block_size;
  if (mode == nullptr && !unusual) return;
  if (mode != nullptr && mode->value.value == kStatic) return;
  const yaml::Range where = mode != nullptr ? mode->value.where : recipe.backend ? recipe.backend->where : recipe.where;
  diag::Diagnostic d =
      finding(rule::capability_static_verify, *file.document, where, "backend",
              mode != nullptr
                  ? fmt::format("{} is \"{}\", {} needs \"{}\"", kVerifyMode, mode->value.value, model.repo, kStatic)
                  : fmt::format("{} draft tokens on a DSpark head of block size {} need {}: \"{}\"", *drafts,
                                model.dspark_block_size, kVerifyMode, kStatic),
              fmt::format("set {}: \"{}\" in the environment of the role that decodes", kVerifyMode, kStatic));
  d.notes.push_back({fmt::format("required by entry \"{}\"", entry.key), entry.document->span(drafts.where)});
  out.add(std::move(d));
}

std::string_view role_name(Role role) {
  switch (role) {
    case Role::kAggregated:
      return "aggregated";
    case Role::kPrefill:
      return "prefill";
    case Role::kDecode:
      return "decode";
  }
  return "aggregated";
}

std::string flag_path(const Recipe& recipe, Role role, const EngineFlags& flags) {
  const std::string& type = recipe.backend->type.value;
  return fmt::format("backend.{}_config.{}.{}", type.empty() ? "sglang" : type, role_name(role),
                     flags.engine == Engine::kVllm ? "moe-backend" : "moe-runner-backend");
}

void check_fp4_backend(const RecipeFile& file, const RecipeVariant& variant, Role role, diag::Diagnostics& out) {
  const Recipe& recipe = variant.recipe;
  if (!recipe.resources || !recipe.model || !recipe.model->precision) return;
  const GpuType* gpu = find_gpu_type(recipe.resources->gpu_type.value);
  if (gpu == nullptr || gpu->block_scaled_fp4 || gpu->compute_major == 0) return;
  const EngineFlags flags = read_engine_flags(recipe, role);
  const bool fp4 = recipe.model->precision->find("fp4") != std::string::npos;
  const bool block_scaled = std::find(kBlockScaledBackends.begin(), kBlockScaledBackends.end(),
                                      flags.moe_backend.value) != kBlockScaledBackends.end();
  if (!fp4 || !block_scaled) return;
  diag::Diagnostic d = finding(
      rule::capability_fp4_backend, *file.document, flags.moe_backend.where, flag_path(recipe, role, flags),
      fmt::format(
          "MoE backend \"{}\" computes FP4 weights with FP8 activations, which {} (SM {}.{}) has no tensor-core "
          "operands for",
          *flags.moe_backend, gpu->name, gpu->compute_major, gpu->compute_minor),
      "available there: fp8 with any backend, fp4 weights with \"marlin\" (16-bit activations), or expansion to FP8 at "
      "load, which changes the activations and is research-only, not an official submission");
  d.notes.push_back({"the GPU type is stated here", file.document->span(recipe.resources->gpu_type.where)});
  out.add(std::move(d));
}

}  // namespace

void check_capabilities(const MatrixEntry& entry, const std::vector<PointView>& views, const Checkout& checkout,
                        diag::Diagnostics& out) {
  const ModelFacts* model = find_model_facts(entry.model.value);
  if (model == nullptr) return;
  for (const PointView& view : views) {
    const bool dspark = view.point->spec_decoding && *view.point->spec_decoding == SpecDecoding::kDspark;
    if (!dspark || !entry.draft_tokens_of(*view.point)) continue;
    check_draft_length(view, *model, out);
    const Text& reference = entry.recipe_of(*view.point);
    if (!reference) continue;
    const RecipeVariant* variant = find_recipe_variant(checkout, *reference);
    const RecipeFile* file = checkout.find_recipe(parse_recipe_reference(*reference).path);
    if (variant != nullptr) check_static_verify(view, *model, *file, variant->recipe, out);
  }
}

void check_capabilities(const RecipeFile& recipe, diag::Diagnostics& out) {
  for (const RecipeVariant& variant : recipe.variants)
    for (const Role role : {Role::kAggregated, Role::kPrefill, Role::kDecode})
      check_fp4_backend(recipe, variant, role, out);
}

}  // namespace sweep::schema
