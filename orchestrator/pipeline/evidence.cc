#include "orchestrator/pipeline/evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "orchestrator/diag/rules/engine.h"
#include "orchestrator/engine/adapter.h"
#include "orchestrator/engine/server.h"

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
  auto counters = counters_of(r.measurement);
  if (!counters) return diag::fail(std::move(counters).error());
  std::vector<sample::Sample> requests;
  std::copy_if(r.samples.begin(), r.samples.end(), std::back_inserter(requests),
               [](const sample::Sample& s) { return s.phase == sample::Phase::kMeasured; });
  Judged judged{
      .verdict = {},
      .acceptance = *counters ? std::optional(judge::Steps{(**counters).drafts, (**counters).accepted}) : std::nullopt,
      .windows = windows_of(r.measurement),
      .accepted_per_position = *counters ? (**counters).accepted_per_position : std::vector<int64_t>()};
  judged.verdict = judge::judge(
      {.job = r.job,
       .planned_requests = r.job.requests,
       .samples = requests,
       .acceptance = judged.acceptance,
       .windows = judged.windows,
       .prefix_cache_hits = *counters ? (**counters).prefix_cache_hits : 0,
       .weights_verified = r.weights.value("verified", false) && r.engine.value("launcher", "") != "external",
       .weights_revision = r.weights.value("revision", ""),
       .gate_passed = gate_verdict(r.kernels) == "pass",
       .gated_kernel_sha256 = r.kernels.value("library_sha256", ""),
       .loaded_kernel_sha256 = loaded_kernels(r.engine),
       .uses_bundled_kernels = framework->uses_bundled_kernels,
       .compiles_at_run_time = !framework->uses_bundled_kernels,
       .telemetry = r.power.telemetry,
       .no_telemetry = r.power.reason});
  return judged;
}

}  // namespace sweep::pipeline
