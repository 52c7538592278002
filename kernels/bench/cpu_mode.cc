#include "kernels/bench/cpu_mode.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "kernels/bench/peak.h"
#include "kernels/bench/shapes.h"
#include "kernels/cpu/decode.h"
#include "kernels/cpu/tile_ops.h"

namespace flashmla::bench {
namespace {

struct Options {
  const char* shape = nullptr;
  int32_t threads = static_cast<int32_t>(std::clamp(std::thread::hardware_concurrency(), 1U, 1024U));
  int32_t repeats = 15;
  bool reference = true;
};

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

void time_shape(const Shape& shape, const Options& options, cpu::WorkerPool& pool, double core_peak) {
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
  const double core_rate = workload.flops() / cpu * 1e-9;
  std::printf("%-22s %9.3f ms (best %9.3f) %6.1f GFLOP/s | a core: %6.1f GFLOP/s, %3.0f %% of its peak",
              shape.name.c_str(), wall * 1e3, *std::min_element(fast.wall.begin(), fast.wall.end()) * 1e3,
              workload.flops() / wall * 1e-9, core_rate, 100 * core_rate / core_peak);
  if (options.reference) std::printf(", %5.1f x reference", median(reference.cpu) / cpu);
  std::printf("\n");
}

int run(const Options& options) {
  cpu::WorkerPool pool(options.threads);
  const double peak = core_fma_peak();
  std::printf("isa %s, %d threads, multiply-add peak of a core %.0f GFLOP/s, medians of %d\n", cpu::tile_ops().isa,
              options.threads, peak, options.repeats);
  bool any = false;
  for (const Shape& shape : shapes()) {
    if (options.shape != nullptr && shape.name != options.shape) continue;
    time_shape(shape, options, pool, peak);
    any = true;
  }
  if (!any) std::fprintf(stderr, "flashmla-bench: there is no shape \"%s\"\n", options.shape);
  return any ? 0 : 2;
}

}  // namespace

int run_cpu_mode(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const bool has_value = i + 1 < argc;
    if (std::strcmp(argv[i], "--no-reference") == 0) {
      options.reference = false;
    } else if (std::strcmp(argv[i], "--shape") == 0 && has_value) {
      options.shape = argv[++i];
    } else if (std::strcmp(argv[i], "--threads") == 0 && has_value) {
      options.threads = std::atoi(argv[++i]);
    } else if (std::strcmp(argv[i], "--repeats") == 0 && has_value) {
      options.repeats = std::atoi(argv[++i]);
    } else {
      return kUsageExit;
    }
  }
  if (options.threads < 1 || options.threads > 1024 || options.repeats < 1) return kUsageExit;
  return run(options);
}

}  // namespace flashmla::bench
