// Acceptance figures that engines give as JSON documents instead of counters.
//   ATOM          GET /debug/mtp_stats: totals since the server started
//   TensorRT-LLM  GET /metrics: a list of iterations, drained by each reading; GET /perf_metrics: a list of requests,
//                 likewise drained
//   SGLang        GET /server_info: mean acceptance length since the server started
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/engine/spec_counters.h"

namespace sweep::engine {

// Larger documents are refused.
inline constexpr uint64_t kMostJsonStatsBytes = uint64_t{64} << 20;

struct JsonStats {
  SpecCounters counters;              // sums of the document
  std::vector<SpecCounters> records;  // TensorRT-LLM: one iteration or request each
  std::vector<double> mean_lengths;   // SGLang: one rank each
  bool since_start = false;           // cumulative: warm-up is in it
  std::optional<int64_t> first_iteration;
  std::optional<int64_t> last_iteration;
  std::optional<int64_t> reused_tokens;  // TensorRT-LLM: of prompts, in reused blocks, since the start
};

// Whether the text is such a document of an engine that gives one, rather than lines of a log or a page of counters.
bool looks_like_json_stats(std::string_view text, std::string_view engine);

// `file` is for messages. Fails (engine/malformed-metrics) for what is no document of this engine.
diag::Result<JsonStats> parse_json_stats(std::string_view text, std::string_view engine, const std::string& file);

// What happened between two readings. Cumulative documents: the difference; a figure that fell is reported
// (engine/counter-reset). Drained lists: the second one alone; iterations of the first that are there again are
// reported as malformed.
diag::Result<SpecCounters> counted_between(const JsonStats& before, const JsonStats& after,
                                           const std::string& after_file, diag::Diagnostics& diagnostics);

}  // namespace sweep::engine
