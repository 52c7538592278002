#include "orchestrator/plan/expand.h"

#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/base/edit_distance.h"
#include "orchestrator/diag/rules/matrix.h"
#include "orchestrator/plan/row.h"
#include "orchestrator/schema/engine_flags.h"
#include "orchestrator/schema/points.h"
#include "orchestrator/schema/rules.h"

namespace sweep::plan {

namespace {

namespace rule = diag::rule;
using schema::Checkout;
using schema::MatrixEntry;
using schema::PointView;
using schema::Recipe;

constexpr std::string_view kNoImage = "none";
constexpr int64_t kDefaultPromptsMult = 10;  // srt-slurm's defaults
constexpr int64_t kDefaultWarmupMult = 2;

Setting setting_of(const yaml::Entry& entry) {
  const yaml::Node& value = entry.value;
  if (value.is_scalar()) return {entry.key, value.text, yaml::decode_boolean(value).has_value()};
  if (value.is_null()) return {entry.key, {}, false};
  return {entry.key, value_row(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), false};
}

// Variables of every process, then those of the role; the role's win.
std::vector<Setting> environment_of(const Recipe& recipe, schema::Role role) {
  std::vector<Setting> settings;
  for (const auto* environment : {&recipe.environment, &schema::engine_environment(recipe, role)}) {
    for (const schema::NamedText& variable : *environment) {
      const auto same =
          std::find_if(settings.begin(), settings.end(), [&](const Setting& s) { return s.name == variable.name; });
      if (same != settings.end())
        same->value = variable.value.value;
      else
        settings.push_back({variable.name, variable.value.value, false});
    }
  }
  return settings;
}

class EntryExpansion {
 public:
  EntryExpansion(const Checkout& checkout, const MatrixEntry& entry, const Selection& selection, Plan& plan)
      : checkout_(checkout), entry_(entry), selection_(selection), plan_(plan) {}

  void run() {
    bool agentic = false;
    for (const PointView& view : schema::points_of(entry_)) {
      if (view.fixed == nullptr) {
        agentic = true;
        continue;
      }
      for (const int64_t concurrency : schema::concurrencies_of(*view.point))
        if (selection_.concurrencies.empty() ||
            std::find(selection_.concurrencies.begin(), selection_.concurrencies.end(), concurrency) !=
                selection_.concurrencies.end())
          plan_.jobs.push_back(make_job(view, concurrency));
    }
    if (agentic)
      plan_.diagnostics.add(schema::finding(rule::plan_agentic_not_run, *entry_.document, entry_.key_where, entry_.key,
                                            fmt::format("the agentic scenarios of \"{}\" give no jobs", entry_.key),
                                            "they are dispatched from the job matrix"));
  }

 private:
  Job make_job(const PointView& view, int64_t concurrency) const {
    Job job;
    fill_identity(job);
    fill_workload(job, view, concurrency);
    fill_speculation(job, view);
    fill_recipe(job, view);
    job.id = job_id(job);
    return job;
  }

  void fill_identity(Job& job) const {
    job.entry = entry_.key;
    job.where = entry_.document->span(entry_.key_where);
    if (entry_.image.value != kNoImage) job.image = entry_.image.value;
    job.image_pinned = job.image.find("@sha256:") != std::string::npos;
    job.model = entry_.model.value;
    job.model_prefix = entry_.model_prefix.value;
    job.revision = entry_.revision.value;
    if (const schema::Pin* pin = checkout_.find_pin(job.model, job.revision)) job.pin = pin->file;
    job.precision = entry_.precision.value;
    job.framework = entry_.framework.value;
    job.runner = entry_.runner.value;
    job.status = entry_.status.value_or(Status::kReady);
    job.research_only = entry_.research_only.value;
    job.authorization = entry_.authorization.value;
    for (const schema::Text& deviation : entry_.deviations) job.deviations.push_back(deviation.value);
    job.exact_lengths = entry_.exact_lengths.value_or(true);
  }

  void fill_workload(Job& job, const PointView& view, int64_t concurrency) const {
    const schema::Point& point = *view.point;
    job.isl = view.fixed->isl.value;
    job.osl = view.fixed->osl.value;
    job.concurrency = concurrency;
    job.requests = kDefaultPromptsMult * concurrency;
    job.warmup_requests = kDefaultWarmupMult * concurrency;
    job.multinode = point.is_multi_node();
    job.gpus = entry_.uses_no_gpu() ? 0 : point.gpus();
    if (point.decode) {
      job.tp = point.decode->tp.value_or(1);
      job.pp = point.decode->pp.value_or(1);
      job.ep = point.decode->ep.value_or(1);
      job.dp_attn = point.decode->dp_attn.value;
    } else {
      job.tp = point.tp.value_or(1);
      job.pp = point.pp.value_or(1);
      job.ep = point.ep.value_or(1);
      job.dp_attn = point.dp_attn.value;
    }
  }

  void fill_speculation(Job& job, const PointView& view) const {
    const schema::SpecDecoding method = view.point->spec_decoding.value_or(schema::SpecDecoding::kNone);
    job.spec_decoding = schema::choice_name(method);
    if (method == schema::SpecDecoding::kNone) return;
    job.num_draft_tokens = entry_.draft_tokens_of(*view.point).value;
    if (const auto& acceptance = entry_.acceptance_of(*view.point)) {
      job.acceptance.source = acceptance->source.value_or(AcceptanceSource::kGolden);
      if (acceptance->length) job.acceptance.length = *acceptance->length;
    }
    if (job.acceptance.source == AcceptanceSource::kGolden)
      job.acceptance.length = golden_length(checkout_, entry_, job.num_draft_tokens);
  }

  void fill_recipe(Job& job, const PointView& view) const {
    const schema::Text& reference = entry_.recipe_of(*view.point);
    if (!reference) return;
    job.recipe = *reference;
    const schema::RecipeVariant* variant = schema::find_recipe_variant(checkout_, *reference);
    if (variant == nullptr) return;
    const Recipe& recipe = variant->recipe;
    const schema::Role role = job.multinode ? schema::Role::kDecode : schema::Role::kAggregated;
    if (const yaml::Node* flags = schema::engine_config(recipe, role))
      for (const yaml::Entry& entry : flags->entries) job.engine_flags.push_back(setting_of(entry));
    job.environment = environment_of(recipe, role);
    if (!recipe.benchmark) return;
    job.requests = recipe.benchmark->num_prompts_mult.value_or(kDefaultPromptsMult) * job.concurrency;
    job.warmup_requests = recipe.benchmark->num_warmup_mult.value_or(kDefaultWarmupMult) * job.concurrency;
  }

  const Checkout& checkout_;
  const MatrixEntry& entry_;
  const Selection& selection_;
  Plan& plan_;
};

void report_unknown(const Checkout& checkout, const std::string& name, diag::Diagnostics& out) {
  std::vector<std::string_view> names;
  for (const MatrixEntry& entry : checkout.entries) names.push_back(entry.key);
  std::string help;
  if (const auto nearest = base::nearest(name, names)) {
    help = fmt::format("did you mean \"{}\"?", *nearest);
  } else {
    help = "entries: ";
    constexpr size_t kShown = 20;
    for (size_t i = 0; i < names.size() && i < kShown; ++i) help += fmt::format("{}{}", i == 0 ? "" : ", ", names[i]);
    if (names.size() > kShown) help += ", ...";
  }
  out.add(diag::make(rule::plan_unknown_entry,
                     name.find('*') != std::string::npos ? fmt::format("\"{}\" matches no matrix entry", name)
                                                         : fmt::format("no matrix entry is named \"{}\"", name),
                     std::move(help)));
}

std::vector<const MatrixEntry*> select(const Checkout& checkout, const Selection& selection, diag::Diagnostics& out) {
  std::vector<const MatrixEntry*> selected;
  const auto add = [&selected](const MatrixEntry& entry) {
    if (std::find(selected.begin(), selected.end(), &entry) == selected.end()) selected.push_back(&entry);
  };
  if (selection.entries.empty())
    for (const MatrixEntry& entry : checkout.entries) add(entry);
  for (const std::string& name : selection.entries) {
    bool found = false;
    for (const MatrixEntry& entry : checkout.entries) {
      if (!schema::key_matches(name, entry.key)) continue;
      found = true;
      add(entry);
    }
    if (!found) report_unknown(checkout, name, out);
  }
  return selected;
}

}  // namespace

std::optional<double> golden_length(const Checkout& checkout, const MatrixEntry& entry, int64_t drafts) {
  constexpr std::string_view kPreferredMode = "thinking_on";
  std::optional<double> found;
  for (const schema::AcceptanceCurve& curve : checkout.curves) {
    if (!curve.is_for(entry)) continue;
    for (const auto& [length_drafts, length] : curve.lengths)
      if (length_drafts == drafts && (!found || curve.mode == kPreferredMode)) found = *length;
  }
  return found;
}

Plan expand(const Checkout& checkout, const Selection& selection) {
  Plan plan;
  for (const MatrixEntry* entry : select(checkout, selection, plan.diagnostics)) {
    const size_t before = plan.jobs.size();
    EntryExpansion(checkout, *entry, selection, plan).run();
    if (plan.jobs.size() == before && !selection.concurrencies.empty() && !selection.entries.empty())
      plan.diagnostics.add(
          schema::finding(rule::plan_no_job, *entry->document, entry->key_where, entry->key,
                          fmt::format("entry \"{}\" has no job at the asked concurrencies", entry->key),
                          "ask for concurrencies that the entry lists"));
  }
  plan.diagnostics.normalise();
  return plan;
}

}  // namespace sweep::plan
