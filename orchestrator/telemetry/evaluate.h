// From samples and a window to energy, and to what makes the figures unusable. The same code judges a live run and a
// recorded capture.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/telemetry/capture.h"
#include "orchestrator/telemetry/window.h"

namespace sweep::telemetry {

// What is asked of a capture besides covering the window.
struct Requirements {
  // Samples a second of each GPU inside the window; 0: two samples are enough.
  double least_hz = 0;
  // Between two samples with a value, seconds. 3 is the limit of InferenceX and srt-slurm, which sample once a second.
  double longest_gap_s = 3.0;
};

// Of a run that sampled itself: at 20 Hz, ten missed readings in a row end the claim to know the power in between.
inline constexpr Requirements kLive{.least_hz = 10, .longest_gap_s = 0.5};

// The SM clock at the first and the last sample inside the window.
struct ClockTrend {
  double start_mhz = 0;
  double end_mhz = 0;
  double drop_percent = 0;  // of start_mhz; negative for a rise
  bool decays = false;      // a steady fall: see power/clock-decay
};

struct GpuPower {
  std::string name;
  int64_t samples = 0;        // with a power value inside the window
  int64_t without_value = 0;  // inside the window
  double longest_gap_s = 0;   // between samples around and inside the window
  std::optional<double> energy_j;
  std::optional<double> counter_energy_j;  // difference of the energy counter, interpolated at both ends
  std::optional<ClockTrend> clock;
  uint64_t throttle_reasons = 0;  // all bits that were seen inside the window
  bool throttle_known = false;
};

struct PowerReport {
  std::optional<Span> window;  // on the clock of the capture; absent if it has no window on it
  std::optional<int64_t> output_tokens;
  std::vector<GpuPower> gpus;
  diag::Diagnostics findings;

  // Nothing is claimed once an error was found.
  bool valid() const { return !findings.has_errors(); }
  std::vector<std::string> reasons() const;  // the messages of the errors
  std::optional<double> total_energy_j() const;
  std::optional<double> average_total_power_w() const;
  std::optional<double> joules_per_output_token() const;
  // The GPU whose SM clock fell most, in percent.
  const GpuPower* slowest_trend() const;
  uint64_t throttle_reasons() const;
};

PowerReport evaluate(const Capture& capture, const Window& window, const Requirements& requirements);

// The values of the report under the names that `inspect power` and result.json use; null where nothing is claimed.
nlohmann::json values_json(const PowerReport& report);

}  // namespace sweep::telemetry
