#include <fmt/format.h>

#include "orchestrator/diag/rules/run.h"
#include "orchestrator/pipeline/load.h"
#include "orchestrator/pipeline/stages.h"

namespace sweep::pipeline {

std::string describe_point(const plan::Job& job) {
  std::string text = fmt::format("{}: {} in / {} out, concurrency {}", job.entry, job.isl, job.osl, job.concurrency);
  if (job.num_draft_tokens > 0) {
    text += fmt::format(", {} drafts, acceptance ", job.num_draft_tokens);
    text += job.acceptance.length ? fmt::format("length {} ({})", *job.acceptance.length,
                                                plan::acceptance_source_name(job.acceptance.source))
                                  : std::string(plan::acceptance_source_name(job.acceptance.source));
  }
  return text;
}

diag::Result<diag::Done> record_plan(const Line& line) {
  const nlohmann::json document = {
      {"job", plan::to_json(line.job)},
      {"seed", line.options.seed},
      {"load", load_options(line.options)},
      {"engine_url", line.options.engine_url ? nlohmann::json(*line.options.engine_url) : nlohmann::json(nullptr)}};
  auto known = line.folder.read(stage_file::kPlan);
  if (!known) return diag::fail(std::move(known).error());
  if (!*known) {
    if (auto written = line.folder.write(stage_file::kPlan, document); !written) return written;
    line.progress.begin(Stage::kPlan, "");
    line.progress.end(Stage::kPlan, describe_point(line.job));
    return diag::Done{};
  }
  for (const char* key : {"job", "seed", "load", "engine_url"}) {
    if ((**known).value(key, nlohmann::json()) == document[key]) continue;
    return diag::fail(
        diag::rule::run_plan_changed,
        fmt::format("\"{}\" in {} is not what this call asks for", key, line.folder.file(stage_file::kPlan).string()),
        "start a new run with another --out, or call with the former options");
  }
  line.progress.reuse(Stage::kPlan, describe_point(line.job));
  return diag::Done{};
}

}  // namespace sweep::pipeline
