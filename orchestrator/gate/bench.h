// Runs the benchmark on a kernel build and reads its figures.
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

struct BenchRequest {
  std::filesystem::path program;  // flashmla-bench
  std::filesystem::path folder;   // where bench.json, bench.log and transition.svg go; must exist
  // What of it to measure; the program's own defaults where empty. All but `shape` are for CUDA architectures.
  std::vector<std::string> sections;
  std::string shape;
  std::vector<int32_t> heads;
  int32_t replays = 0;
  bool quick = false;
  int table = -1;  // descriptor that the table goes to while it grows; below 0: the log
};

struct BenchReport {
  bool complete = false;                  // every shape has its times
  nlohmann::json document;                // bench.json: the program's figures, and `kernels`, what was measured
  std::filesystem::path path, log, plot;  // plot: empty if none was asked for
  std::string problem;                    // the program's last words, if it is not complete
  double seconds = 0;
};

// Fails with kernels/bench-broken if there are no figures, with kernels/bench-usage if the program refused its
// arguments. Shapes that could not be measured are a value.
diag::Result<BenchReport> run_bench(const KernelBuild& build, const BenchRequest& request, const std::stop_token& stop);

}  // namespace sweep::gate
