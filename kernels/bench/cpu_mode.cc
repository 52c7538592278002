#include "kernels/bench/cpu_mode.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <vector>

#include "kernels/bench/output.h"
#include "kernels/bench/peak.h"
#include "kernels/bench/shapes.h"
#include "kernels/cpu/decode.h"
#include "kernels/cpu/tile_ops.h"

namespace flashmla::bench {
namespace {

struct FreeAligned {
  void operator()(void* memory) const { ::operator delete (memory, std::align_val_t{kWorkspaceAlignment}); }
};

struct Time {
  double wall;  // seconds
  double cpu;   // seconds of all threads together: hardly disturbed by other processes
};

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

Time time_of(const flashmla_sparse_decode_params& params, const cpu::TileOps& ops, cpu::WorkerPool& pool) {
  const auto start = std::chrono::steady_clock::now();
  const double cpu_start = cpu_seconds();
  cpu::sparse_decode(params, ops, pool);
  const double cpu = cpu_seconds() - cpu_start;
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), cpu};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Times {
  std::vector<double> wall, cpu;
  void add(const Time& time) {
    wall.push_back(time.wall);
    cpu.push_back(time.cpu);
  }
};

struct CpuResult {
  std::string name;
  double ms, best_ms;
  double gflops;           // of all threads
  double core_gflops;      // from processor time
  double share_of_peak;    // of a core's
  double times_reference;  // 0: not measured
};

CpuResult time_shape(const Shape& shape, const CpuOptions& options, cpu::WorkerPool& pool, double core_peak) {
  const Workload workload(shape);
  flashmla_sparse_decode_params params = workload.params();
  params.workspace_bytes = cpu::decode_workspace(pool.size(), params.num_heads, params.d_qk);
  const std::unique_ptr<void, FreeAligned> workspace(
      ::operator new (params.workspace_bytes, std::align_val_t{kWorkspaceAlignment}));
  params.workspace = workspace.get();
  Times fast, reference;
  time_of(params, cpu::tile_ops(), pool);
  for (int32_t i = 0; i < options.repeats; ++i) {
    fast.add(time_of(params, cpu::tile_ops(), pool));
    // The reference is slow and steady: a few runs, spread among the others.
    if (options.reference && i % 5 == 0) reference.add(time_of(params, cpu::kGenericTileOps, pool));
  }
  const double wall = median(fast.wall);
  const double cpu = median(fast.cpu);
  const double core_gflops = workload.flops() / cpu * 1e-9;
  return {.name = shape.name,
          .ms = wall * 1e3,
          .best_ms = *std::min_element(fast.wall.begin(), fast.wall.end()) * 1e3,
          .gflops = workload.flops() / wall * 1e-9,
          .core_gflops = core_gflops,
          .share_of_peak = core_gflops / core_peak,
          .times_reference = options.reference ? median(reference.cpu) / cpu : 0};
}

void print(const CpuResult& result) {
  std::printf("%-22s %9.3f ms (best %9.3f) %6.1f GFLOP/s | a core: %6.1f GFLOP/s, %3.0f %% of its peak",
              result.name.c_str(), result.ms, result.best_ms, result.gflops, result.core_gflops,
              100 * result.share_of_peak);
  if (result.times_reference > 0) std::printf(", %5.1f x reference", result.times_reference);
  std::printf("\n");
  std::fflush(stdout);
}

std::string to_json(const CpuOptions& options, double peak, const std::vector<CpuResult>& results) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const CpuResult& result : results) {
    nlohmann::ordered_json one = {{"name", result.name},
                                  {"ms", result.ms},
                                  {"best_ms", result.best_ms},
                                  {"gflops", result.gflops},
                                  {"core_gflops", result.core_gflops},
                                  {"share_of_peak", result.share_of_peak}};
    one["times_reference"] =
        result.times_reference > 0 ? nlohmann::ordered_json(result.times_reference) : nlohmann::ordered_json(nullptr);
    list.push_back(std::move(one));
  }
  const nlohmann::ordered_json json = {{"schema_version", 1},        {"mode", "cpu"},
                                       {"isa", cpu::tile_ops().isa}, {"threads", options.threads},
                                       {"repeats", options.repeats}, {"core_peak_gflops", peak},
                                       {"shapes", std::move(list)},  {"complete", true}};
  return json.dump(2) + "\n";
}

}  // namespace

int run_cpu_mode(const CpuOptions& options) {
  cpu::WorkerPool pool(options.threads);
  const double peak = core_fma_peak();
  std::printf("isa %s, %d threads, multiply-add peak of a core %.0f GFLOP/s, medians of %d\n", cpu::tile_ops().isa,
              options.threads, peak, options.repeats);
  std::vector<CpuResult> results;
  for (const Shape& shape : shapes()) {
    if (!options.shape.empty() && shape.name != options.shape) continue;
    results.push_back(time_shape(shape, options, pool, peak));
    print(results.back());
  }
  constexpr int kCouldNotRun = 3;
  return options.json.empty() || write_file(options.json, to_json(options, peak, results)) ? 0 : kCouldNotRun;
}

}  // namespace flashmla::bench
