// The measured window that energy is integrated over.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "orchestrator/telemetry/capture.h"

namespace sweep::telemetry {

struct Span {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;  // later than begin_ns

  double seconds() const;
};

// The same window on the clocks that are known.
struct Window {
  std::optional<Span> local, unix_time, monotonic;
  std::optional<int64_t> expected_gpus;
  std::optional<int64_t> output_tokens;

  const std::optional<Span>& on(Clock clock) const;
};

// Reads one of
//   {"start": TIME, "end": TIME, "expected_gpus": N, "output_tokens": N}: TIME as text or as Unix seconds, the counts
//   may be left out;
//   the window file of srt-slurm: benchmark_start_time_unix, benchmark_end_time_unix;
//   measurement.json of a run.
// Problems are reported at their place; nothing is then returned.
std::optional<Window> parse_window(const std::string& name, std::string text, diag::Diagnostics& out);

}  // namespace sweep::telemetry
