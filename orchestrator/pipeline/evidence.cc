#include "orchestrator/pipeline/evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "orchestrator/diag/rules/engine.h"
#include "orchestrator/engine/adapter.h"
#include "orchestrator/engine/decode_log_line.h"
#include "orchestrator/engine/readback.h"

namespace sweep::pipeline {

namespace {

using nlohmann::json;

// Independent draws of a forced acceptance: an engine that draws once per step for its whole batch made as many of them
// as the batch made steps.
int64_t draws_of(const engine::Framework& framework, const plan::Job& job, int64_t request_steps) {
  return framework.draws_per_step ? std::max<int64_t>(1, request_steps / std::max<int64_t>(1, job.concurrency))
                                  : request_steps;
}

std::vector<judge::Window> windows_of(const engine::Framework& framework, const plan::Job& job,
                                      const engine::DecodeLog& log) {
  std::vector<judge::Window> windows;
  for (const engine::DecodeWindow& w : log.windows) {
    judge::Window window{.length = w.acceptance_length, .steps = w.steps, .accepted = w.accepted, .draws = 0};
    if (w.steps)
      window.draws = draws_of(framework, job, *w.steps);
    else if (framework.draws_per_step)
      window.draws = log.steps_per_window.value_or(engine::kUsualStepsPerWindow);
    windows.push_back(window);
  }
  return windows;
}

// By counters where the engine counts accepted drafts; else by its log; else the mean that it gives itself.
std::optional<judge::Realised> realised_by(const engine::Framework& framework, const plan::Job& job,
                                           const engine::ReadBack& read_back,
                                           const std::optional<engine::WindowLog>& log,
                                           const std::vector<judge::Window>& windows) {
  const engine::SpecCounters& counted = read_back.counted;
  if (read_back.problem.empty() && counted.drafts.value_or(0) > 0 && counted.accepted) {
    auto realised = judge::Realised::counted(*counted.drafts, *counted.accepted);
    realised.draws = draws_of(framework, job, *counted.drafts);
    return realised;
  }
  if (log && !windows.empty()) {
    const engine::WindowSummary summary = engine::summarise(log->log.windows);
    judge::Realised realised{.from = judge::AcceptanceFrom::kLogWindows,
                             .length = summary.length ? *summary.length : *summary.mean,
                             .steps = summary.steps ? summary.steps : counted.drafts,
                             .accepted = summary.accepted,
                             .draws = 0};
    for (const judge::Window& window : windows) realised.draws += window.draws;
    return realised;
  }
  if (!read_back.mean_since_start) return std::nullopt;
  return judge::Realised{.from = judge::AcceptanceFrom::kSinceStart,
                         .length = *read_back.mean_since_start,
                         .steps = std::nullopt,
                         .accepted = std::nullopt,
                         .draws = draws_of(framework, job, counted.drafts.value_or(0))};
}

std::string first_of(const engine::LogLines& lines) {
  return lines.first.empty() ? std::string() : fmt::format("line {}: {}", lines.first[0].line, lines.first[0].text);
}

// The line that explains most: a shortage of memory rather than the traceback that it ended.
std::string worst_of(const engine::LogLines& lines) {
  const engine::LogLine* worst = nullptr;
  for (const engine::LogLine& line : lines.first)
    if (worst == nullptr || engine::trouble_in(line.text) < engine::trouble_in(worst->text)) worst = &line;
  return worst == nullptr ? std::string() : fmt::format("line {}: {}", worst->line, worst->text);
}

std::optional<judge::EngineLog> log_evidence(const std::optional<engine::WindowLog>& log) {
  if (!log) return std::nullopt;
  return judge::EngineLog{.compile_lines = log->log.compile_lines.count,
                          .first_compile_line = first_of(log->log.compile_lines),
                          .error_lines = log->log.error_lines.count,
                          .worst_error_line = worst_of(log->log.error_lines),
                          .cached_tokens = log->log.cached_tokens,
                          .problem = log->problem};
}

// The SHA-256 of the kernel library as the engine reports it; empty if it does not.
std::string loaded_kernels(const json& engine) {
  const json info = engine.value("server_info", json());
  if (!info.is_object()) return {};
  const json kernels = info.value("kernels", json());
  return kernels.is_object() ? kernels.value("sha256", "") : std::string();
}

std::string text_in(const json& object, const char* name) {
  const json value = object.value(name, json());
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::string gate_verdict(const json& kernels) {
  const json gate = kernels.value("gate", json());
  return gate.is_object() ? gate.value("verdict", "") : std::string();
}

}  // namespace

diag::Result<Judged> judge_recorded(const Recorded& r) {
  const engine::Framework* framework = engine::find_framework(r.job.framework);
  if (framework == nullptr)
    return diag::fail(diag::rule::engine_unknown_framework,
                      fmt::format("there is no adapter for framework \"{}\"", r.job.framework));
  auto read_back = engine::read_back_from_json(r.measurement.value("counted", json()));
  if (!read_back) return diag::fail(std::move(read_back).error());
  std::optional<engine::WindowLog> log;
  if (const json document = r.measurement.value("log", json()); !document.is_null()) {
    auto read = engine::window_log_from_json(document);
    if (!read) return diag::fail(std::move(read).error());
    log = std::move(*read);
  }
  std::vector<sample::Sample> requests;
  std::copy_if(r.samples.begin(), r.samples.end(), std::back_inserter(requests),
               [](const sample::Sample& s) { return s.phase == sample::Phase::kMeasured; });
  Judged judged{.verdict = {},
                .acceptance = std::nullopt,
                .windows = log ? windows_of(*framework, r.job, log->log) : std::vector<judge::Window>(),
                .accepted_per_position = read_back->counted.accepted_per_position};
  judged.acceptance = realised_by(*framework, r.job, *read_back, log, judged.windows);
  const engine::SpecCounters& counted = read_back->counted;
  judged.verdict = judge::judge(
      {.job = r.job,
       .planned_requests = r.job.requests,
       .samples = requests,
       .acceptance = judged.acceptance,
       .windows = judged.windows,
       .counted = {.steps = counted.drafts,
                   .accepted = counted.accepted,
                   .drafted = counted.draft_tokens,
                   .generated_tokens = counted.generation_tokens,
                   .cached_tokens = counted.cache_hits,
                   .problem = read_back->problem},
       .log = log_evidence(log),
       .draws_per_step = framework->draws_per_step,
       .weights_verified = r.weights.value("verified", false) && r.engine.value("launcher", "") != "external",
       .weights_revision = r.weights.value("revision", ""),
       .gate_passed = gate_verdict(r.kernels) == "pass",
       .gated_kernel_sha256 = r.kernels.value("library_sha256", ""),
       .loaded_kernel_sha256 = loaded_kernels(r.engine),
       .uses_bundled_kernels = framework->uses_bundled_kernels,
       .compiles_at_run_time = !framework->uses_bundled_kernels,
       .telemetry = r.power.telemetry,
       .no_telemetry = r.power.reason,
       .image_digest = text_in(r.engine, "image_digest")});
  return judged;
}

}  // namespace sweep::pipeline
