// The straight line: plan -> verify weights -> build kernels -> gate kernels -> launch engine -> warm up -> measure ->
// judge -> bundle -> summarise, for one job in one run folder. (Load, validate and plan come before, once per call.)
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/http/request.h"
#include "orchestrator/loadgen/load_spec.h"
#include "orchestrator/loadgen/open_loop.h"
#include "orchestrator/pipeline/locations.h"
#include "orchestrator/pipeline/progress.h"
#include "orchestrator/plan/job.h"

namespace sweep::pipeline {

// Who starts the engine.
enum class Launcher : uint8_t { kLocal, kContainer };
std::string_view launcher_name(Launcher launcher);  // "local", "container"

struct RunOptions {
  std::filesystem::path folder;  // of this job
  bool resume = false;
  std::optional<std::string> engine_url;  // a server that is already up
  http::Access access = {};               // to it
  loadgen::Api api = loadgen::Api::kCompletions;
  std::optional<loadgen::Arrivals> arrivals = {};  // open loop; absent: closed loop at the job's concurrency
  std::optional<std::filesystem::path> weights;    // folder of the staged weights
  // Of the other hosts that take part: nothing is dispatched unless they hold what this host holds.
  std::vector<std::filesystem::path> weights_reports = {};
  uint64_t seed = 1;  // of prompts and engine
  Launcher launcher = Launcher::kLocal;
  std::chrono::milliseconds ready_timeout{600'000};    // engine start
  std::chrono::milliseconds request_timeout{600'000};  // first token; see request_timeouts()
};

struct RunOutcome {
  nlohmann::json result;  // the document of result.json
  bool valid = false;
};

// Fails with the first thing that kept the run from reaching a verdict. An invalid result is a value. Warnings on the
// way go to `diagnostics`.
diag::Result<RunOutcome> run_job(const plan::Job& job, const RunOptions& options, const Locations& locations,
                                 Progress& progress, diag::Diagnostics& diagnostics, const std::stop_token& stop);

// What run_job would do, for people: each command, file and request. Changes nothing.
diag::Result<std::string> describe_job(const plan::Job& job, const RunOptions& options, const Locations& locations);

}  // namespace sweep::pipeline
