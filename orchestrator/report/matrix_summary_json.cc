#include <nlohmann/json.hpp>

#include "orchestrator/diag/render.h"
#include "orchestrator/report/matrix_summary.h"

namespace sweep::report {

namespace {

using nlohmann::ordered_json;

ordered_json runner_json(const plan::RunnerLoad& load) {
  const bool bounded = load.jobs != 0 && load.jobs_with_limit == load.jobs;
  return {{"runner", load.runner},
          {"gpu_type", load.gpu_type.empty() ? ordered_json() : ordered_json(load.gpu_type)},
          {"jobs", load.jobs},
          {"points", load.points},
          {"evaluated", load.evaluated},
          {"in_progress", load.in_progress},
          {"gpus_per_job", {{"least", load.least_gpus}, {"most", load.most_gpus}}},
          {"jobs_with_time_limit", load.jobs_with_limit},
          {"gpu_hours_of_limited_jobs", load.limited_gpu_hours},
          {"gpu_hours_at_most", bounded ? ordered_json(load.limited_gpu_hours) : ordered_json()}};
}

ordered_json change_json(const plan::RecipeChange& change) {
  ordered_json fields = ordered_json::array();
  const auto value = [](const std::string& text) {
    return text.empty() ? ordered_json() : ordered_json::parse(text, nullptr, false);
  };
  for (const plan::FieldChange& field : change.fields)
    fields.push_back({{"path", field.path}, {"before", value(field.before)}, {"after", value(field.after)}});
  return {{"entry", change.entry},     {"recipe", change.recipe},   {"added", change.added},
          {"removed", change.removed}, {"changed", change.changed}, {"fields", std::move(fields)}};
}

}  // namespace

ordered_json matrix_summary_json(const plan::MatrixSummary& summary) {
  ordered_json document = {{"schema_version", kMatrixSummaryVersion},
                           {"entries", summary.entries},
                           {"jobs", summary.jobs},
                           {"points", summary.points},
                           {"in_progress", summary.in_progress}};
  for (const char* list : {"runners", "research_only", "acceptance", "open"}) document[list] = ordered_json::array();
  for (const plan::RunnerLoad& load : summary.runners) document["runners"].push_back(runner_json(load));
  for (const plan::ResearchGroup& group : summary.research)
    document["research_only"].push_back(
        {{"entries", group.entries}, {"authorization", group.authorization}, {"deviations", group.deviations}});
  for (const plan::AcceptanceGroup& group : summary.acceptance)
    document["acceptance"].push_back(
        {{"spec_decoding", group.method},
         {"num_draft_tokens", group.draft_tokens == 0 ? ordered_json() : ordered_json(group.draft_tokens)},
         {"source", group.source.empty() ? ordered_json() : ordered_json(group.source)},
         {"length", group.length ? ordered_json(*group.length) : ordered_json()},
         {"topologies", group.topologies},
         {"entries", group.entries}});
  for (const plan::OpenItem& item : summary.open)
    document["open"].push_back(
        {{"entry", item.entry},
         {"state", item.kind == plan::OpenItem::Kind::kInProgress ? "in-progress" : "unresolved-recipes"},
         {"recipes", item.recipes}});
  document["changes"] = nullptr;
  if (summary.has_base) {
    ordered_json recipes = ordered_json::array();
    for (const plan::RecipeChange& change : summary.changes) recipes.push_back(change_json(change));
    document["changes"] = {{"added", summary.totals.added},
                           {"removed", summary.totals.removed},
                           {"changed", summary.totals.changed},
                           {"recipes", std::move(recipes)}};
  }
  document["diagnostics"] = diag::to_json(summary.diagnostics)["diagnostics"];
  return document;
}

}  // namespace sweep::report
