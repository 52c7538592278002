// Runs the correctness gate on a kernel build and reads its report.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stop_token>
#include <string>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/gate/build.h"

namespace sweep::gate {

struct GateRequest {
  std::filesystem::path program;  // flashmla-gate
  bool full = false;              // the wide case set instead of the quick one that precedes every run
  uint64_t seed = 1;
  std::filesystem::path folder;  // where report and log go
};

struct GateReport {
  bool passed = false;
  int64_t cells = 0;
  std::vector<std::string> failed_cells;
  nlohmann::json document;  // the gate's report as written
  std::filesystem::path log;
  double seconds = 0;
};

// Fails (kernels/gate-broken) if the gate did not reach a verdict; a failed gate is a value.
diag::Result<GateReport> run_gate(const KernelBuild& build, const GateRequest& request, const std::stop_token& stop);

// The diagnostic of a failed gate.
diag::Diagnostic gate_failure(const KernelBuild& build, const GateReport& report);

}  // namespace sweep::gate
