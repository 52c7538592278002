#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <system_error>

#include "orchestrator/base/clock.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/digest/sha256.h"
#include "orchestrator/judge/verdict.h"
#include "orchestrator/pipeline/evidence.h"
#include "orchestrator/pipeline/power.h"
#include "orchestrator/pipeline/stages.h"
#include "orchestrator/report/result.h"
#include "orchestrator/report/summary.h"
#include "orchestrator/sample/metrics.h"

namespace sweep::pipeline {

namespace {

using nlohmann::json;

json provenance(const Line& line, const json& measurement) {
  const json window = measurement.value("window", json::object());
  return {{"measured_from", base::utc_text(window.value("start_unix_ns", int64_t{0}))},
          {"measured_to", base::utc_text(window.value("end_unix_ns", int64_t{0}))},
          {"host", measurement.value("host", json())},
          {"checkout", measurement.value("checkout", json())},
          {"job", plan::to_json(line.job)}};
}

std::string aggregate_name(const plan::Job& job, const report::Load& load) {
  const std::string point =
      load.request_rate ? fmt::format("rate{}", *load.request_rate) : fmt::format("conc{}", job.concurrency);
  return fmt::format("agg_{}_{}_{}_tp{}_{}_{}.json", job.model_prefix, job.isl, job.osl, job.tp, point, job.id);
}

// The sums of every file of the bundle, sorted by name, in the format of sha256sum.
diag::Result<std::string> sums(const RunFolder& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator item(folder.path(), error), end; !error && item != end;
       item.increment(error)) {
    const std::string name = item->path().filename().string();
    if (item->is_regular_file(error) && !name.starts_with('.') && name != stage_file::kSums) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string& name : names) {
    const auto digest = digest::sha256_file(folder.file(name));
    if (!digest) return diag::fail(diag::rule::file_unreadable, digest.error().text());
    text += fmt::format("{}  {}\n", *digest, name);
  }
  return text;
}

}  // namespace

diag::Result<json> judge_and_bundle(const Line& line, const WeightsOutcome& weights, const KernelsOutcome& kernels,
                                    const Measured& measured) {
  line.progress.begin(Stage::kJudge, "");
  const sample::Summary summary = sample::summarise(measured.samples);
  const PowerOutcome power = power_of(line.job, line.folder.path(), measured.measurement, summary.completion_tokens);
  if (power.report)
    for (const diag::Diagnostic& d : power.report->findings.items())
      if (d.severity != diag::Severity::kError) line.diagnostics.add(d);  // errors are in the verdict
  auto judged = judge_recorded({.job = line.job,
                                .samples = measured.samples,
                                .engine = measured.engine,
                                .weights = weights.document,
                                .kernels = kernels.document,
                                .measurement = measured.measurement,
                                .power = power});
  if (!judged) return diag::fail(std::move(judged).error());
  const judge::Verdict& verdict = judged->verdict;
  if (auto written = line.folder.write(stage_file::kVerdict, judge::to_json(verdict)); !written)
    return diag::fail(std::move(written).error());
  line.progress.end(Stage::kJudge,
                    verdict.valid() ? "valid" : fmt::format("INVALID: {} reasons", verdict.reasons().size()));

  line.progress.begin(Stage::kBundle, "");
  const report::Record record{.job = line.job,
                              .summary = summary,
                              .verdict = verdict,
                              .acceptance = judged->acceptance,
                              .windows = judged->windows,
                              .accepted_per_position = judged->accepted_per_position,
                              .planned_requests = line.job.requests,
                              .seed = line.options.seed,
                              .load = report::load_from_json(measured.measurement),
                              .engine = measured.engine,
                              .weights = weights.document,
                              .kernels = kernels.document,
                              .provenance = provenance(line, measured.measurement),
                              .power = power.document};
  json result = report::result_document(record);
  const std::string aggregate = report::aggregate_document(record).dump(2) + "\n";
  for (const auto& [name, text] :
       {std::pair<std::string, std::string>(aggregate_name(line.job, record.load), aggregate),
        {stage_file::kSummary, report::summary_markdown(result)},
        {stage_file::kResult, result.dump(2, ' ', false, json::error_handler_t::replace) + "\n"}})
    if (auto written = line.folder.write_text(name, text); !written) return diag::fail(std::move(written).error());
  auto text = sums(line.folder);
  if (!text) return diag::fail(std::move(text).error());
  if (auto written = line.folder.write_text(stage_file::kSums, *text); !written)
    return diag::fail(std::move(written).error());
  line.progress.end(Stage::kBundle, line.folder.path().string());
  return result;
}

}  // namespace sweep::pipeline
