// The raw record of one request: what was seen, not what it means. sample/metrics.h says what it means.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/diag/diagnostic.h"

namespace sweep::sample {

enum class Phase : uint8_t { kWarmUp, kMeasured };
std::string_view phase_name(Phase phase);  // "warm-up", "measured"
std::optional<Phase> parse_phase(std::string_view text);

// One event of the stream that brought tokens.
struct Chunk {
  int64_t ns = 0;                 // CLOCK_MONOTONIC at receive
  std::optional<int64_t> tokens;  // absent if the server does not say; 0 for text held back from an earlier event

  friend bool operator==(const Chunk&, const Chunk&) = default;
};

// Why a request does not count. `rule` is the slug of a diagnostic.
struct Problem {
  std::string rule;
  std::string message;

  friend bool operator==(const Problem&, const Problem&) = default;
};

// What output_sha256 was taken over.
enum class OutputKind : uint8_t { kNone, kTokenIds, kText };
std::string_view output_kind_name(OutputKind kind);  // "none", "token-ids", "text"
std::optional<OutputKind> parse_output_kind(std::string_view text);

struct Sample {
  std::string job;
  int64_t sequence = 0;  // from 0 within its phase
  Phase phase = Phase::kMeasured;
  uint64_t prompt_seed = 0;

  // CLOCK_MONOTONIC in nanoseconds; absent if it did not happen.
  int64_t scheduled_ns = 0;
  int64_t sent_ns = 0;                   // handed to the transport, before it connects
  std::optional<int64_t> first_byte_ns;  // of the reply's body
  std::optional<int64_t> first_token_ns;
  std::optional<int64_t> last_token_ns;
  int64_t end_ns = 0;
  int64_t sent_unix_ns = 0;

  int status = 0;                 // of HTTP; 0: no reply
  std::vector<Problem> problems;  // empty: the request did exactly what was asked
  std::string finish_reason;      // the first one given; empty if none

  std::optional<int64_t> prompt_tokens;      // as the server counts them (usage)
  std::optional<int64_t> completion_tokens;  // as the server counts them (usage)
  std::optional<int64_t> received_tokens;    // counted here: by token ids, or by the steps of continuous usage
  std::optional<int64_t> cached_tokens;      // of the prompt, answered from a prefix cache

  std::vector<Chunk> chunks;
  int64_t bytes = 0;  // of the reply's body
  OutputKind output_kind = OutputKind::kNone;
  std::string output_sha256;  // over the ids in decimal, each followed by a line feed, or over the text; empty for none

  bool ok() const { return problems.empty(); }
  friend bool operator==(const Sample&, const Sample&) = default;
};

nlohmann::json to_json(const Sample& sample);
diag::Result<Sample> sample_from_json(const nlohmann::json& json);

}  // namespace sweep::sample
