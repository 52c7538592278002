// What an engine's log says about the measured interval: acceptance windows, prompt tokens from the cache, lines that
// tell of compilation or of errors.
//   SGLang     "Decode batch" and "Prefill batch" lines, start-up arguments; or the JSON of /server_info
//   vLLM       "SpecDecoding metrics" lines
//   ATOM       its start-up line about forced acceptance; or the JSON of /debug/mtp_stats
//   TensorRT-LLM  the JSON lists of /metrics and /perf_metrics
//   embedded   its event log, JSON lines
// Samples: the tests. Each engine has several spellings, which change with its versions; what is not recognised is no
// window, and a window whose figures cannot be is an error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/engine/log_time.h"

namespace sweep::engine {

// Verification steps whose acceptance the engine reported together.
struct DecodeWindow {
  uint32_t line = 0;
  std::optional<int64_t> begin_ns;  // of the log's clock; known to the embedded engine only
  std::optional<int64_t> end_ns;    // when the line was written
  double acceptance_length = 0;     // from counts where the line has them, else as printed
  std::optional<int64_t> steps;     // of single requests
  std::optional<int64_t> accepted;  // draft tokens
  std::optional<int64_t> drafted;
  std::vector<double> per_position;  // as printed
};

struct LogLine {
  uint32_t line = 0;
  std::string text;  // shortened, printable
};

// The first of them, and how many there are.
inline constexpr size_t kMostLogLines = 100;
struct LogLines {
  std::vector<LogLine> first;
  size_t count = 0;
};

struct DecodeLog {
  std::vector<DecodeWindow> windows;        // inside the interval
  int64_t windows_outside = 0;              // before or after it
  LogLines compile_lines;                   // inside the interval
  LogLines error_lines;                     // likewise
  std::optional<int64_t> new_tokens;        // of prompts, computed inside the interval
  std::optional<int64_t> cached_tokens;     // of prompts, not computed
  std::optional<int64_t> draft_tokens;      // per step, as the log says
  std::optional<int64_t> steps_per_window;  // of the batch, as the log says; SGLang only
  std::optional<double> forced_length;      // the engine says that it forces this acceptance length
  std::optional<uint32_t> ready_line;       // from which on an interval without `from` begins
  std::string looks_like;                   // another engine whose lines the log holds; only where it has no windows
  bool has_times = false;                   // false: nothing could be cut
  bool since_start = false;                 // one figure for all since the engine started
  // Draft tokens of records that do not say how many steps they took (TensorRT-LLM's requests).
  std::optional<int64_t> unassigned_drafted;
  std::optional<int64_t> unassigned_accepted;
};

// Both ends belong to the interval. Without `from` it begins when the engine says that it is ready.
struct LogInterval {
  std::optional<LogTime> from;
  std::optional<LogTime> to;
  // Instead of times, or beside them: lines that begin in [from_byte, to_byte) of the text. A log that is watched while
  // it is written is cut this way, whatever clock its lines have.
  std::optional<uint64_t> from_byte = std::nullopt;
  std::optional<uint64_t> to_byte = std::nullopt;
};

struct LogSource {
  std::string_view text;
  std::string file;    // for messages
  std::string engine;  // as in counter_names()
};

inline constexpr uint64_t kMostLogBytes = uint64_t{256} << 20;
inline constexpr int64_t kUsualStepsPerWindow = 40;  // SGLang's --decode-log-interval

// Fails (engine/malformed-log) for a window inside the interval that cannot be, for a document that is not the
// engine's, and for an interval that cannot be placed on the log's clock.
diag::Result<DecodeLog> read_decode_log(const LogSource& source, const LogInterval& interval);

// Of windows: the mean of their means, which is not weighted by their tokens; and from their counts, where all have
// them, the acceptance length over all steps.
struct WindowSummary {
  int64_t windows = 0;
  std::optional<double> mean;
  std::optional<double> min;
  std::optional<double> max;
  std::optional<int64_t> steps;
  std::optional<int64_t> accepted;
  std::optional<int64_t> drafted;
  std::optional<double> length;      // 1 + accepted / steps
  std::vector<double> per_position;  // weighted by steps; empty if unknown
};
WindowSummary summarise(const std::vector<DecodeWindow>& windows);

}  // namespace sweep::engine
