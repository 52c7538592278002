// What was sampled of GPUs over time, and the CSV files that hold it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/diag/diagnostic.h"

namespace sweep::telemetry {

// What nanoseconds are counted from. Times of different clocks cannot be compared.
enum class Clock : uint8_t {
  kLocal,      // a wall clock whose time zone is not stated, as nvidia-smi prints it
  kUnix,       // Unix time
  kMonotonic,  // CLOCK_MONOTONIC of the host that sampled
};
std::string_view clock_name(Clock clock);  // "local wall clock", "Unix time", "monotonic clock"

// One reading of one GPU. What the driver did not tell is absent.
struct Sample {
  int64_t ns = 0;
  std::optional<double> power_w;
  std::optional<double> energy_j;  // a counter that only grows
  std::optional<double> sm_clock_mhz;
  std::optional<double> memory_clock_mhz;
  std::optional<double> temperature_c;
  std::optional<int64_t> memory_used_bytes;
  std::optional<uint64_t> throttle_reasons;  // bits of throttle.h
  std::optional<int64_t> foreign_processes;  // on the GPU, and not of the engine
  uint32_t line = 0;                         // in the file, from 1
};

struct Gpu {
  std::string host;    // empty: not stated
  int64_t index = -1;  // -1: not stated
  std::string uuid;    // empty: not stated
  std::vector<Sample> samples;

  std::string name() const;  // "GPU 0", "GPU 0 of node-1", "GPU-cfcd2084-..."
};

struct Capture {
  std::string file;  // what diagnostics show
  Clock clock = Clock::kLocal;
  std::vector<Gpu> gpus;  // by host, index and uuid; samples in file order
};

// Reads one of
//   nvidia-smi --query-gpu=... --format=csv: columns in any order, at least timestamp, index or uuid, and power.draw;
//   the DCGM samples of srt-slurm: schema_version,timestamp_unix,scrape_seq,hostname,gpu_index,gpu_uuid,power_w;
//   power.csv of a run (sampler.h).
// Every cell that cannot be what its column says is reported at its line and column, up to a limit; nothing is then
// returned. "[N/A]" and its relatives are absent values. A last line that was cut off is left out with a warning.
std::optional<Capture> parse_capture(const std::string& name, std::string_view text, diag::Diagnostics& out);

inline constexpr size_t kMostGpus = 1024;
inline constexpr uint64_t kMostCaptureBytes = uint64_t{1} << 30;  // an hour of 8 GPUs at 20 Hz has 75 MB

}  // namespace sweep::telemetry
