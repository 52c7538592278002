// From a job to the exact command that serves it, per framework. Acceptance control is rendered here, nowhere else.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/exec/process.h"
#include "orchestrator/plan/job.h"

namespace sweep::engine {

struct LaunchRequest {
  const plan::Job& job;
  std::filesystem::path model_folder;    // verified weights
  std::filesystem::path kernel_library;  // gated kernels
  std::filesystem::path program_folder;  // where sweepctl's own programs are
  std::filesystem::path run_folder;      // for the engine's log and port file
  uint64_t seed = 0;
};

struct Launch {
  exec::CommandSpec command;
  std::string served_model;                        // as `/v1/models` will list it
  std::string base_url;                            // empty: the port is in `port_file`
  std::optional<std::filesystem::path> port_file;  // written by the engine when it listens
};

struct Framework {
  std::string_view name;
  std::string_view metrics_prefix;  // of its Prometheus counters; empty if it has none that we can read
  bool uses_bundled_kernels;        // its attention goes through the library that was gated
  bool draws_per_step;              // forced acceptance is drawn once per step for the whole batch, not per request
  diag::Result<Launch> (*render)(const LaunchRequest& request);
};

std::span<const Framework> frameworks();

// Null if there is no adapter.
const Framework* find_framework(std::string_view name);

}  // namespace sweep::engine
