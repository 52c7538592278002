#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <system_error>

#include "orchestrator/base/clock.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/digest/sha256.h"
#include "orchestrator/engine/server.h"
#include "orchestrator/judge/verdict.h"
#include "orchestrator/pipeline/stages.h"
#include "orchestrator/report/result.h"
#include "orchestrator/report/summary.h"
#include "orchestrator/sample/metrics.h"

namespace sweep::pipeline {

namespace {

using nlohmann::json;

// The engine's counters over the measured phase; nothing if a reading is missing.
diag::Result<std::optional<engine::Counters>> counters_of(const json& measurement) {
  const json before = measurement.value("counters_before", json());
  const json after = measurement.value("counters_after", json());
  if (before.is_null() || after.is_null()) return std::optional<engine::Counters>();
  auto first = engine::counters_from_json(before);
  if (!first) return diag::fail(std::move(first).error());
  auto second = engine::counters_from_json(after);
  if (!second) return diag::fail(std::move(second).error());
  return std::optional(*second - *first);
}

std::vector<judge::Steps> windows_of(const json& measurement) {
  std::vector<judge::Steps> windows;
  for (const json& w : measurement.value("windows", json::array()))
    if (w.is_object())
      windows.push_back({.steps = w.value("steps", int64_t{0}), .accepted = w.value("accepted", int64_t{0})});
  return windows;
}

// The SHA-256 of the kernel library as the engine reports it; empty if it does not.
std::string loaded_kernels(const json& engine) {
  const json info = engine.value("server_info", json());
  if (!info.is_object()) return {};
  const json kernels = info.value("kernels", json());
  return kernels.is_object() ? kernels.value("sha256", "") : std::string();
}

json provenance(const Line& line, const json& measurement) {
  const json window = measurement.value("window", json::object());
  return {{"measured_from", base::utc_text(window.value("start_unix_ns", int64_t{0}))},
          {"measured_to", base::utc_text(window.value("end_unix_ns", int64_t{0}))},
          {"host", measurement.value("host", json())},
          {"checkout", measurement.value("checkout", json())},
          {"job", plan::to_json(line.job)}};
}

std::string aggregate_name(const plan::Job& job) {
  return fmt::format("agg_{}_{}_{}_tp{}_conc{}_{}.json", job.model_prefix, job.isl, job.osl, job.tp, job.concurrency,
                     job.id);
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
  auto counters = counters_of(measured.measurement);
  if (!counters) return diag::fail(std::move(counters).error());
  std::vector<sample::Sample> requests;
  std::copy_if(measured.samples.begin(), measured.samples.end(), std::back_inserter(requests),
               [](const sample::Sample& s) { return s.phase == sample::Phase::kMeasured; });
  const std::vector<judge::Steps> windows = windows_of(measured.measurement);
  const std::optional<judge::Steps> steps =
      *counters ? std::optional(judge::Steps{(**counters).drafts, (**counters).accepted}) : std::nullopt;
  const judge::Verdict verdict =
      judge::judge({.job = line.job,
                    .planned_requests = line.job.requests,
                    .samples = requests,
                    .acceptance = steps,
                    .windows = windows,
                    .prefix_cache_hits = *counters ? (**counters).prefix_cache_hits : 0,
                    .weights_verified = weights.document.value("verified", false) && !line.options.engine_url,
                    .weights_revision = weights.document.value("revision", ""),
                    .gate_passed = kernels.document.at("gate").value("verdict", "") == "pass",
                    .gated_kernel_sha256 = kernels.build.library_sha256,
                    .loaded_kernel_sha256 = loaded_kernels(measured.engine),
                    .uses_bundled_kernels = line.framework.uses_bundled_kernels,
                    .compiles_at_run_time = !line.framework.uses_bundled_kernels});
  if (auto written = line.folder.write(stage_file::kVerdict, judge::to_json(verdict)); !written)
    return diag::fail(std::move(written).error());
  line.progress.end(Stage::kJudge,
                    verdict.valid() ? "valid" : fmt::format("INVALID: {} reasons", verdict.reasons().size()));

  line.progress.begin(Stage::kBundle, "");
  const sample::Summary summary = sample::summarise(measured.samples);
  const report::Record record{
      .job = line.job,
      .summary = summary,
      .verdict = verdict,
      .acceptance = steps,
      .windows = windows,
      .accepted_per_position = *counters ? (**counters).accepted_per_position : std::vector<int64_t>(),
      .planned_requests = line.job.requests,
      .seed = line.options.seed,
      .engine = measured.engine,
      .weights = weights.document,
      .kernels = kernels.document,
      .provenance = provenance(line, measured.measurement)};
  json result = report::result_document(record);
  const std::string aggregate = report::aggregate_document(record).dump(2) + "\n";
  for (const auto& [name, text] :
       {std::pair<std::string, std::string>(aggregate_name(line.job), aggregate),
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
