// Samples GPUs in the background while a point is measured.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/telemetry/nvml.h"

namespace sweep::telemetry {

struct SamplerOptions {
  std::string library = kNvmlLibrary;
  size_t gpus = 0;                               // how many, see choose_gpus(); 0: all
  std::string visible_devices = {};              // CUDA_VISIBLE_DEVICES of the engine; empty: not set
  std::chrono::milliseconds period{50};          // twice the rate that kLive asks for
  std::function<bool(int64_t pid)> is_own = {};  // the engine's processes; the others are foreign
};

// Positions of the GPUs that an engine on `count` GPUs uses: the first ones, or the first ones of CUDA_VISIBLE_DEVICES,
// which names them by number or by the beginning of their UUID. Fewer where there are not as many.
std::vector<size_t> choose_gpus(const std::vector<NvmlGpu>& gpus, size_t count, std::string_view visible_devices);

struct Recording {
  Capture capture;             // on the monotonic clock
  int64_t unix_offset_ns = 0;  // Unix time - CLOCK_MONOTONIC, read once when sampling began
  std::string driver_version;
  std::vector<std::string> gpu_names;  // of capture.gpus
  bool instant_power = false;          // otherwise the driver's average
  std::vector<std::string> problems;   // what the driver refused, each once
};

class Sampler {
 public:
  // Loads NVML and takes the first sample before it returns.
  static diag::Result<std::unique_ptr<Sampler>> start(SamplerOptions options);
  ~Sampler();

  // Takes a last sample and ends.
  Recording stop();

 private:
  struct State;
  explicit Sampler(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// power.csv: a header, then one line a sample in the order of sampling. Absent values are empty cells.
//   schema_version,monotonic_ns,unix_ns,gpu_index,gpu_uuid,power_w,energy_j,sm_clock_mhz,memory_clock_mhz,
//   temperature_c,memory_used_bytes,throttle_reasons,foreign_processes
std::string power_csv(const Recording& recording);

// What is on a GPU before an engine is launched.
struct Occupancy {
  std::string gpu;
  int64_t memory_used_bytes = 0;
  std::optional<int64_t> processes;  // absent if they could not be listed
};

// Of the GPUs that choose_gpus() gives.
diag::Result<std::vector<Occupancy>> occupancy(const SamplerOptions& options);

}  // namespace sweep::telemetry
