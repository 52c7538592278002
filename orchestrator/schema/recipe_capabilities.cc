// What one recipe asks of its GPU and engine.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "orchestrator/diag/rules/matrix.h"
#include "orchestrator/schema/capability_rules.h"
#include "orchestrator/schema/engine_flags.h"
#include "orchestrator/schema/facts.h"
#include "orchestrator/schema/rules.h"

namespace sweep::schema {

namespace {

namespace rule = diag::rule;

constexpr std::string_view kKvLayout = "SGLANG_DSV4_KV_LAYOUT";
constexpr int64_t kDeepGemmTile = 128;  // columns of an expert's slice

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return result;
}

// Expert GEMMs on block-scaled FP4 tensor cores. `flashinfer_mxfp4` is not among them: on Hopper it is a path with
// 16-bit activations.
bool needs_block_scaled_fp4(std::string_view backend) {
  const std::string name = lower(backend);
  return name.starts_with("deep_gemm") || name.starts_with("deepgemm") || name.find("cutedsl") != std::string::npos;
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

const ModelFacts* model_of(const Recipe& recipe) {
  if (recipe.identity && recipe.identity->model)
    if (const ModelFacts* facts = find_model_facts(recipe.identity->model->repo.value)) return facts;
  if (!recipe.model) return nullptr;
  constexpr std::string_view kHub = "hf:";
  std::string_view path = recipe.model->path.value;
  if (path.starts_with(kHub)) path.remove_prefix(kHub.size());
  return find_model_facts(path);
}

class RecipeCapabilities {
 public:
  RecipeCapabilities(const RecipeFile& file, const Recipe& recipe, diag::Diagnostics& out)
      : file_(file), recipe_(recipe), out_(out) {}

  void run() {
    if (recipe_.resources) gpu_ = find_gpu_type(recipe_.resources->gpu_type.value);
    model_ = model_of(recipe_);
    for (const Role role : {Role::kAggregated, Role::kPrefill, Role::kDecode}) {
      const EngineFlags flags = read_engine_flags(recipe_, role);
      if (!flags.configured) continue;
      check_fp4_backend(flags, role);
      check_kv_layout(role);
      check_dspark(flags, role);
      check_expert_slice(flags, role);
    }
  }

 private:
  std::string config_path(Role role, std::string_view flag) const {
    const std::string& type = recipe_.backend->type.value;
    std::string path = fmt::format("backend.{}_config.{}", type.empty() ? "sglang" : type, role_name(role));
    if (!flag.empty()) path += fmt::format(".{}", flag);
    return path;
  }

  static std::string_view moe_flag(const EngineFlags& flags) {
    if (flags.engine == Engine::kVllm) return "moe-backend";
    return flags.engine == Engine::kTrtllm ? "moe_config.backend" : "moe-runner-backend";
  }

  bool is_fp4() const { return recipe_.model && recipe_.model->precision.value.find("fp4") != std::string::npos; }

  void check_fp4_backend(const EngineFlags& flags, Role role) {
    if (gpu_ == nullptr || gpu_->compute_major == 0 || !is_fp4() || !needs_block_scaled_fp4(flags.moe_backend.value))
      return;
    constexpr int kBlackwell = 10;  // also DeepGEMM's and CuteDSL's FP4 kernels
    if (gpu_->compute_major == kBlackwell) return;
    diag::Diagnostic d = finding(
        rule::capability_fp4_backend, *file_.document, flags.moe_backend.where, config_path(role, moe_flag(flags)),
        gpu_->block_scaled_fp4
            ? fmt::format("MoE backend \"{}\" has FP4 kernels for SM 10.x only, {} is SM {}.{}", *flags.moe_backend,
                          gpu_->name, gpu_->compute_major, gpu_->compute_minor)
            : fmt::format("MoE backend \"{}\" computes FP4 weights with FP8 activations, which {} (SM {}.{}) has no "
                          "tensor-core operands for",
                          *flags.moe_backend, gpu_->name, gpu_->compute_major, gpu_->compute_minor),
        "available there: fp8 with any backend, fp4 weights with \"marlin\" or \"flashinfer_mxfp4\" (16-bit "
        "activations), or expansion to FP8 at load, which changes the activations and is research-only, not an "
        "official "
        "submission");
    d.notes.push_back({"the GPU type is stated here", file_.document->span(recipe_.resources->gpu_type.where)});
    out_.add(std::move(d));
  }

  void check_kv_layout(Role role) {
    if (gpu_ == nullptr || gpu_->compute_major == 0 || gpu_->compute_major == 10) return;
    const NamedText* layout = find_environment(recipe_, role, kKvLayout);
    if (layout == nullptr || layout->value.value != "v41") return;
    out_.add(finding(rule::capability_kv_layout, *file_.document, layout->value.where, "backend",
                     fmt::format("{}=v41 asserts SM 10.x, {} is SM {}.{}", kKvLayout, gpu_->name, gpu_->compute_major,
                                 gpu_->compute_minor),
                     "use v4 or auto there; the KV bytes of a token then differ between GPU types"));
  }

  void check_dspark(const EngineFlags& flags, Role role) {
    if (!flags.is_dspark()) return;
    if (flags.engine == Engine::kSglang) {
      const yaml::Node* config = engine_config(recipe_, role);
      for (const char* other : {"speculative-num-steps", "speculative-num-draft-tokens", "speculative-eagle-topk"})
        if (const yaml::Entry* entry = find_flag(*config, {other}))
          out_.add(finding(rule::capability_dspark_flags, *file_.document, entry->key_where,
                           config_path(role, entry->key), fmt::format("\"{}\" beside DSPARK", entry->key),
                           "state the draft tokens as speculative-dspark-block-size"));
      if (flags.pp.value_or(1) > 1)
        out_.add(finding(rule::capability_dspark_topology, *file_.document, flags.pp.where,
                         config_path(role, "pp-size"), "SGLang's DSpark does not work with pipeline parallelism",
                         "use tensor parallelism only"));
    }
    if (model_ == nullptr || model_->dspark_block_size == 0 || !flags.draft_tokens) return;
    const int64_t block = model_->dspark_block_size;
    const bool wrong =
        (flags.engine == Engine::kVllm && model_->drafts_in_multiples && *flags.draft_tokens % block != 0) ||
        (flags.engine == Engine::kTrtllm && *flags.draft_tokens != block);
    if (!wrong) return;
    out_.add(finding(
        rule::capability_draft_length, *file_.document, flags.draft_tokens.where, config_path(role, ""),
        fmt::format("{} draft tokens with {}: the DSpark head of {} has block size {}", *flags.draft_tokens,
                    engine_name(flags.engine), model_->repo, block),
        flags.engine == Engine::kVllm ? fmt::format("use a multiple of {}", block) : fmt::format("use {}", block)));
  }

  void check_expert_slice(const EngineFlags& flags, Role role) {
    if (model_ == nullptr || model_->expert_intermediate == 0 || !is_fp4() ||
        !lower(flags.moe_backend.value).starts_with("deep"))
      return;
    const int64_t ep = flags.expert_parallel.value ? flags.ranks() : std::max<int64_t>(flags.ep.value_or(1), 1);
    const int64_t slices = std::max<int64_t>(flags.tp.value_or(1) / ep, 1);
    if (model_->expert_intermediate % slices == 0 && model_->expert_intermediate / slices % kDeepGemmTile == 0) return;
    out_.add(finding(
        rule::capability_expert_slice, *file_.document, flags.moe_backend.where, config_path(role, moe_flag(flags)),
        fmt::format("experts of {} columns cut into {} slices leave {:.6g}, no multiple of {}",
                    model_->expert_intermediate, slices,
                    static_cast<double>(model_->expert_intermediate) / static_cast<double>(slices), kDeepGemmTile),
        "use expert parallelism, a smaller tp, or another MoE backend"));
  }

  const RecipeFile& file_;
  const Recipe& recipe_;
  diag::Diagnostics& out_;
  const GpuType* gpu_ = nullptr;
  const ModelFacts* model_ = nullptr;
};

}  // namespace

void check_capabilities(const RecipeFile& file, diag::Diagnostics& out) {
  for (const RecipeVariant& variant : file.variants) RecipeCapabilities(file, variant.recipe, out).run();
}

}  // namespace sweep::schema
