#include "orchestrator/schema/capability_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "orchestrator/diag/rules/matrix.h"
#include "orchestrator/schema/acceptance_control.h"
#include "orchestrator/schema/acceptance_rules.h"
#include "orchestrator/schema/facts.h"
#include "orchestrator/schema/rules.h"
#include "orchestrator/schema/settings.h"

namespace sweep::schema {

namespace {

namespace rule = diag::rule;

constexpr std::string_view kVerifyMode = "SGLANG_RAGGED_VERIFY_MODE";
constexpr std::string_view kStatic = "static";
constexpr Version kSglangDspark{0, 5, 16};  // also the first to obey a forced acceptance length
constexpr Version kVllmDspark{0, 25, 0};
constexpr Version kVllmV41{0, 30, 0};
constexpr int64_t kFractionalDspark = 20260804;  // sgl-project/sglang pull 33463 merged

bool is_dspark(const Point& point) {
  return point.spec_decoding && *point.spec_decoding == SpecDecoding::kDspark;
}

// vLLM takes multiples of the block size, TensorRT-LLM the block size only; SGLang takes any number with static
// verification, which check_static_verify looks at.
std::string draft_limit(Engine engine, const ModelFacts& model, int64_t drafts) {
  if (engine == Engine::kVllm && model.drafts_in_multiples && drafts % model.dspark_block_size != 0)
    return fmt::format("a multiple of {}", model.dspark_block_size);
  if (engine == Engine::kTrtllm && drafts != model.dspark_block_size)
    return fmt::format("exactly {}", model.dspark_block_size);
  return {};
}

class EntryCapabilities {
 public:
  EntryCapabilities(const MatrixEntry& entry, const std::vector<BoundRecipe>& bound, diag::Diagnostics& out)
      : entry_(entry),
        bound_(bound),
        out_(out),
        engine_(engine_of_framework(entry.framework.value)),
        model_(find_model_facts(entry.model.value)) {}

  void run(const std::vector<PointView>& views) {
    for (const PointView& view : views) {
      const bool dspark = is_dspark(*view.point);
      if (model_ != nullptr) check_support(view, dspark);
      if (dspark) check_draft_length(view);
      if (dspark && engine_ == Engine::kSglang) check_topology(view);
      check_version(view, dspark);
    }
    for (const BoundRecipe& one : bound_)
      if (is_dspark(*one.view->point)) check_static_verify(one);
  }

 private:
  void report(diag::RuleId id, yaml::Range where, std::string path, std::string message, std::string help) {
    out_.add(finding(id, *entry_.document, where, std::move(path), std::move(message), std::move(help)));
  }

  void check_support(const PointView& view, bool dspark) {
    if (!model_->is_v41) return;
    const auto& method = view.point->spec_decoding;
    const bool speculative = method && *method != SpecDecoding::kNone;
    if (engine_ == Engine::kTrtllm && speculative)
      report(rule::capability_model_support, method.where, view.path + ".spec-decoding",
             fmt::format("TensorRT-LLM has no draft layers of {}", model_->repo),
             "use spec-decoding: none, or another engine");
    if (engine_ == Engine::kVllm && speculative && !dspark)
      report(rule::capability_model_support, method.where, view.path + ".spec-decoding",
             fmt::format("vLLM refuses \"{}\" for {}", choice_name(*method), model_->repo),
             "use spec-decoding: dspark");
  }

  void check_draft_length(const PointView& view) {
    const Integer& drafts = entry_.draft_tokens_of(*view.point);
    if (!drafts || model_ == nullptr || model_->dspark_block_size == 0) return;
    const std::string limit = draft_limit(engine_, *model_, *drafts);
    if (limit.empty()) return;
    report(rule::capability_draft_length, drafts.where,
           (view.point->num_draft_tokens ? view.path : entry_.key) + ".num-draft-tokens",
           fmt::format("{} draft tokens with {}: the DSpark head of {} has block size {}, {} needs {}", *drafts,
                       engine_name(engine_), model_->repo, model_->dspark_block_size, engine_name(engine_), limit),
           "use SGLang with static verification, or change the number of draft tokens");
  }

  void refuse_topology(yaml::Range where, std::string path, std::string_view what) {
    report(rule::capability_dspark_topology, where, std::move(path),
           fmt::format("SGLang's DSpark does not work with {}", what), "use tensor parallelism only");
  }

  // SGLang's DSpark: no pipeline, no data-parallel attention; disaggregated for V4.1 only, with equal sizes.
  void check_topology(const PointView& view) {
    const Point& point = *view.point;
    const auto check_group = [&](const Integer& pp, const Boolean& dp_attn, const std::string& path) {
      if (pp.value_or(1) > 1) refuse_topology(pp.where, path + ".pp", "pipeline parallelism");
      if (dp_attn.value) refuse_topology(dp_attn.where, path + ".dp-attn", "data-parallel attention");
    };
    check_group(point.pp, point.dp_attn, view.path);
    if (point.prefill) check_group(point.prefill->pp, point.prefill->dp_attn, view.path + ".prefill");
    if (point.decode) check_group(point.decode->pp, point.decode->dp_attn, view.path + ".decode");
    if (!entry_.disagg.value || !point.prefill || !point.decode) return;
    if (model_ == nullptr || !model_->is_v41)
      refuse_topology(point.decode->where, view.path + ".decode", "disaggregated prefill and decode");
    else if (point.prefill->tp.value != point.decode->tp.value)
      refuse_topology(point.decode->tp.where, view.path + ".decode.tp", "prefill and decode of different tp");
  }

  void check_version(const PointView& view, bool dspark) {
    if (!entry_.image) return;
    const auto& acceptance = entry_.acceptance_of(*view.point);
    if (const auto version = version_of_image(*entry_.image)) {
      if (engine_ == Engine::kSglang && *version < kSglangDspark) {
        if (dspark)
          too_old(*version, kSglangDspark, "has no DSpark");
        else if (forces_length(acceptance) || is_switched_on(view))
          too_old(*version, kSglangDspark, "ignores a forced acceptance length silently");
      }
      if (engine_ == Engine::kVllm && dspark && *version < kVllmDspark) too_old(*version, kVllmDspark, "has no DSpark");
      if (engine_ == Engine::kVllm && model_ != nullptr && model_->is_v41 && *version < kVllmV41)
        too_old(*version, kVllmV41, fmt::format("does not know {}", model_->repo));
    }
    const auto day = day_of_image(*entry_.image);
    const bool fraction = acceptance && acceptance->length && *acceptance->length != std::floor(*acceptance->length);
    if (day && *day < kFractionalDspark && engine_ == Engine::kSglang && dspark && fraction)
      report(rule::capability_engine_version, entry_.image.where, entry_.key + ".image",
             fmt::format("SGLang of {} rounds the acceptance length {} of DSpark to a whole number", *day,
                         *acceptance->length),
             fmt::format("use an image of {} or later", kFractionalDspark));
  }

  static bool is_switched_on(const PointView& view) {
    const auto settings = settings_of(view);
    const Setting* on = find_setting(settings, "SYNTHETIC_ACCEPTANCE");
    return on != nullptr && on->value == "true";
  }

  void too_old(const Version& found, const Version& needed, std::string_view what) {
    report(rule::capability_engine_version, entry_.image.where, entry_.key + ".image",
           fmt::format("{} {}.{}.{} {}", engine_name(engine_), found.major, found.minor, found.patch, what),
           fmt::format("use {}.{}.{} or later", needed.major, needed.minor, needed.patch));
  }

  void check_static_verify(const BoundRecipe& bound) {
    const Integer& drafts = entry_.draft_tokens_of(*bound.view->point);
    if (engine_ != Engine::kSglang || !drafts || model_ == nullptr || model_->dspark_block_size == 0) return;
    const Recipe& recipe = bound.variant->recipe;
    const NamedText* mode = find_environment(recipe, decoding_role(bound), kVerifyMode);
    const bool unusual = *drafts != model_->dspark_block_size;
    const bool forced = forces_length(entry_.acceptance_of(*bound.view->point));
    if (mode == nullptr && !unusual && !forced) return;
    if (mode != nullptr && mode->value.value == kStatic) return;
    // Another mode is wrong only where lengths must be equal.
    if (mode != nullptr && !unusual && !forced && !model_->equal_verify_lengths) return;
    const yaml::Range where = mode != nullptr  ? mode->value.where
                              : recipe.backend ? recipe.backend->where
                                               : recipe.where;
    diag::Diagnostic d = finding(
        rule::capability_static_verify, *bound.file->document, where, "backend",
        mode != nullptr
            ? fmt::format("{} is \"{}\", {} needs \"{}\"", kVerifyMode, mode->value.value, model_->repo, kStatic)
        : unusual ? fmt::format("{} draft tokens on a DSpark head of block size {} need {}: \"{}\"", *drafts,
                                model_->dspark_block_size, kVerifyMode, kStatic)
                  : fmt::format("a forced acceptance length needs {}: \"{}\"", kVerifyMode, kStatic),
        fmt::format("set {}: \"{}\" in the environment of the role that decodes", kVerifyMode, kStatic));
    d.notes.push_back({fmt::format("required by entry \"{}\"", entry_.key), entry_.document->span(drafts.where)});
    out_.add(std::move(d));
  }

  const MatrixEntry& entry_;
  const std::vector<BoundRecipe>& bound_;
  diag::Diagnostics& out_;
  Engine engine_;
  const ModelFacts* model_;
};

}  // namespace

void check_capabilities(const MatrixEntry& entry, const std::vector<PointView>& views,
                        const std::vector<BoundRecipe>& bound, diag::Diagnostics& out) {
  EntryCapabilities(entry, bound, out).run(views);
}

}  // namespace sweep::schema
