// The typed content of result.json, as far as rules look at it. Private to this module; the document as a whole is
// written by orchestrator/report/.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/schema/config.h"

namespace sweep::schema {

enum class ConditionOutcome : uint8_t { kPassed, kFailed, kNotApplicable };
template <>
struct ChoiceNames<ConditionOutcome> {
  static constexpr std::array<std::string_view, 3> kNames{"passed", "failed", "not-applicable"};
};

struct ResultCondition {
  yaml::Range where;
  Text rule, text;
  Located<ConditionOutcome> outcome;
};

struct ResultWorkload {
  yaml::Range where;
  Integer isl, osl, concurrency, requests, measured_requests, failed_requests, warmup_requests, prompt_tokens,
      output_tokens;
};

struct ResultWindow {
  yaml::Range where;
  Integer steps, accepted;
  Number acceptance_length;
};

struct ResultAcceptance {
  yaml::Range where;
  Located<AcceptanceSource> source;
  Integer draft_tokens, steps, accepted;
  Number requested, realised, tolerance;
  std::vector<Integer> accepted_per_position;
  std::vector<ResultWindow> windows;
};

// Values in milliseconds; absent where too few samples were taken.
struct ResultDistribution {
  yaml::Range where;
  Number mean, stddev, min, max, p50, p90, p99;
  Integer count;
};

struct ResultLatency {
  yaml::Range where;
  std::optional<ResultDistribution> ttft, tpot, itl, inter_chunk, e2el;
};

struct ResultAgreement {
  yaml::Range where;
  Boolean agreed;
};

struct ResultWeights {
  yaml::Range where;
  Boolean verified;
  Text revision;
  std::optional<ResultAgreement> agreement;
};

struct ResultPoint {
  yaml::Range where;
  Text revision;
};

struct ResultProvenance {
  yaml::Range where;
  Text measured_from, measured_to;
};

struct ResultFile {
  yaml::Range where;
  DocumentPtr document;
  Text entry;
  std::optional<ResultPoint> point;
  Boolean valid, research_only;
  std::vector<Text> reasons, deviations;
  std::vector<ResultCondition> conditions;
  Text authorization;
  std::optional<ResultWorkload> workload;
  std::optional<ResultAcceptance> acceptance;
  std::optional<ResultLatency> latency_ms;
  std::optional<ResultWeights> weights;
  std::optional<ResultProvenance> provenance;
};

// Rules over the fields of one result: what it states may not contradict itself.
void check_result(const ResultFile& result, diag::Diagnostics& out);

}  // namespace sweep::schema
