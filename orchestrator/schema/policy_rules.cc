// Acceptance and research-only policy: what may carry an explicit acceptance length, and what a departure from the
// model as shipped must state.
#include <fmt/format.h>

#include "orchestrator/diag/rules/matrix.h"
#include "orchestrator/schema/engine_flags.h"
#include "orchestrator/schema/facts.h"
#include "orchestrator/schema/points.h"
#include "orchestrator/schema/recipe_compare.h"
#include "orchestrator/schema/rules.h"

namespace sweep::schema {

namespace {

using diag::RuleId;
namespace rule = diag::rule;

class PolicyCheck {
 public:
  PolicyCheck(const MatrixEntry& entry, const std::vector<PointView>& views, diag::Diagnostics& out)
      : entry_(entry), views_(views), out_(out) {}

  void run() {
    if (entry_.acceptance) check_acceptance(*entry_.acceptance, entry_.key + ".acceptance");
    for (const PointView& view : views_) {
      if (view.point->acceptance) check_acceptance(*view.point->acceptance, view.path + ".acceptance");
      check_point(view);
    }
    check_research();
  }

 private:
  void report(RuleId rule, yaml::Range where, std::string path, std::string message, std::string help = {}) {
    out_.add(finding(rule, *entry_.document, where, std::move(path), std::move(message), std::move(help)));
  }

  static bool is_explicit(const Acceptance& acceptance) {
    return acceptance.source && *acceptance.source == AcceptanceSource::kExplicit;
  }

  // What holds wherever the setting stands.
  void check_acceptance(const Acceptance& acceptance, const std::string& path) {
    if (is_explicit(acceptance) && !acceptance.length.stated())
      report(rule::acceptance_length_missing, acceptance.source.where, path + ".source",
             "\"source: explicit\" needs a \"length\"", "state the mean tokens committed per verification step");
    if (acceptance.source && !is_explicit(acceptance) && acceptance.length)
      report(rule::acceptance_length_not_explicit, acceptance.length.where, path + ".length",
             fmt::format("\"length\" beside \"source: {}\"", choice_name(*acceptance.source)),
             "a length is only set with source: explicit; golden takes it from the curve, measured has none");
    if (is_explicit(acceptance) && !entry_.research_only.value)
      report(rule::acceptance_explicit_needs_research_only, acceptance.source.where, path + ".source",
             fmt::format("an explicit acceptance length in entry \"{}\", which is not research-only", entry_.key),
             "set research-only: true with authorization and deviations, or use source: golden");
    if (acceptance.length && *acceptance.length < 1)
      report_range(acceptance, path, "at least 1: the target's own token is counted");
  }

  void report_range(const Acceptance& acceptance, const std::string& path, const std::string& expected) {
    report(rule::acceptance_out_of_range, acceptance.length.where, path + ".length",
           fmt::format("acceptance length {} is out of range, expected {}", *acceptance.length, expected),
           "the acceptance length counts the tokens committed per verification step: accepted drafts + 1");
  }

  void check_point(const PointView& view) {
    const std::optional<Acceptance>& acceptance = entry_.acceptance_of(*view.point);
    if (!acceptance) return;
    const std::string path = (view.point->acceptance ? view.path : entry_.key) + ".acceptance";
    const auto& method = view.point->spec_decoding;
    if (!method.stated() || (method && *method == SpecDecoding::kNone))
      report(rule::acceptance_without_speculation, acceptance->where, path,
             "an acceptance setting for a point without speculative decoding",
             "set spec-decoding, or remove acceptance");
    if (view.agentic != nullptr && is_explicit(*acceptance))
      report(rule::acceptance_explicit_not_for_agentic, acceptance->source.where, path + ".source",
             "an explicit acceptance length in an agentic scenario",
             "explicit lengths are for fixed-seq-len scenarios only; use source: golden or measured");
    const Integer& drafts = entry_.draft_tokens_of(*view.point);
    if (drafts && acceptance->length && *acceptance->length > static_cast<double>(*drafts) + 1)
      report_range(*acceptance, path, fmt::format("1 to {} with {} draft tokens", *drafts + 1, *drafts));
  }

  void check_research() {
    const bool research = entry_.research_only.value;
    if (research && (!entry_.authorization.stated() || (entry_.authorization && is_blank(*entry_.authorization))))
      report(rule::research_not_authorised,
             entry_.authorization ? entry_.authorization.where : entry_.research_only.where,
             entry_.key + ".authorization",
             fmt::format("entry \"{}\" is research-only and states no authorization", entry_.key),
             "add authorization: who allowed what, and for which purpose");
    if (research && entry_.deviations.empty())
      report(rule::research_deviations_missing, entry_.research_only.where, entry_.key + ".deviations",
             fmt::format("entry \"{}\" is research-only and lists no deviations", entry_.key),
             "list every departure from the model as shipped under deviations");
    if (!research && !entry_.deviations.empty())
      report(rule::research_not_declared, entry_.deviations.front().where, entry_.key + ".deviations",
             fmt::format("entry \"{}\" lists deviations and is not research-only", entry_.key),
             "set research-only: true; deviations never enter official results");
  }

  static bool is_blank(std::string_view text) { return text.find_first_not_of(" \n") == std::string_view::npos; }

  const MatrixEntry& entry_;
  const std::vector<PointView>& views_;
  diag::Diagnostics& out_;
};

// Texts that engines take for true.
bool is_on(std::string_view text) {
  return text == "1" || text == "true" || text == "True" || text == "TRUE" || text == "yes" || text == "on";
}

// Departures from the model as shipped that an entry or its recipe makes without saying so.
class DeviationCheck {
 public:
  DeviationCheck(const MatrixEntry& entry, diag::Diagnostics& out)
      : entry_(entry), out_(out), model_(find_model_facts(entry.model.value)) {}

  void run(const std::vector<PointView>& views, const std::vector<BoundRecipe>& bound) {
    if (entry_.research_only.value || entry_.outside_root) return;  // files from elsewhere have their own policy
    check_precision();
    for (const PointView& view : views) check_drafts(view);
    for (const BoundRecipe& one : bound) check_recipe(one);
  }

 private:
  void report(yaml::Range where, std::string path, std::string message, const BoundRecipe* bound = nullptr,
              yaml::Range recipe_where = {}) {
    diag::Diagnostic d =
        finding(rule::research_undeclared_deviation, *entry_.document, where, std::move(path), std::move(message),
                "set research-only: true with authorization, and list it under deviations");
    if (bound != nullptr) d.notes.push_back({"the recipe does so here", bound->file->document->span(recipe_where)});
    out_.add(std::move(d));
  }

  bool lacks_fp4() const {
    const GpuType* gpu = gpu_type_of_runner(entry_.runner.value);
    return gpu != nullptr && gpu->compute_major != 0 && !gpu->block_scaled_fp4;
  }

  void check_precision() {
    if (model_ == nullptr || !model_->fp4_experts || !lacks_fp4() || entry_.precision.value.find("fp8") != 0) return;
    report(entry_.precision.where, entry_.key + ".precision",
           fmt::format("the FP4 experts of {} run as FP8 with FP8 activations on runner \"{}\"", model_->repo,
                       entry_.runner.value));
  }

  void check_drafts(const PointView& view) {
    const Integer& drafts = entry_.draft_tokens_of(*view.point);
    const bool dspark = view.point->spec_decoding && *view.point->spec_decoding == SpecDecoding::kDspark;
    if (!dspark || !drafts || model_ == nullptr || model_->dspark_block_size == 0 ||
        *drafts == model_->dspark_block_size)
      return;
    report(drafts.where, (view.point->num_draft_tokens ? view.path : entry_.key) + ".num-draft-tokens",
           fmt::format("{} draft tokens on a DSpark head trained for {}", *drafts, model_->dspark_block_size));
  }

  void check_recipe(const BoundRecipe& bound) {
    constexpr std::string_view kDequantise = "SGLANG_DSV4_FP4_DEQUANT";
    for (const Role role : {Role::kAggregated, Role::kPrefill, Role::kDecode}) {
      const NamedText* variable = find_environment(bound.variant->recipe, role, kDequantise);
      if (variable == nullptr || !is_on(variable->value.value)) continue;
      report(bound.reference, entry_.key, fmt::format("the recipe expands FP4 experts to FP8 ({})", kDequantise),
             &bound, variable->name_where);
      return;
    }
  }

  const MatrixEntry& entry_;
  diag::Diagnostics& out_;
  const ModelFacts* model_;
};

}  // namespace

void check_deviations(const MatrixEntry& entry, const std::vector<PointView>& views,
                      const std::vector<BoundRecipe>& bound, diag::Diagnostics& out) {
  DeviationCheck(entry, out).run(views, bound);
}

void check_policy(const MatrixEntry& entry, const std::vector<PointView>& views, diag::Diagnostics& out) {
  PolicyCheck(entry, views, out).run();
}

}  // namespace sweep::schema
