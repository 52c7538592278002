// Which of an engine's counters mean verification steps, accepted drafts and cached prompt tokens, and what they say
// about the time between two readings of them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/engine/prometheus.h"

namespace sweep::engine {

// The largest number of draft positions that is taken seriously.
inline constexpr size_t kMostPositions = 64;
inline constexpr double kLongestAcceptance = static_cast<double>(kMostPositions) + 1;

// Full names of counters; empty where the engine has none. Sources: vLLM v1/spec_decode/metrics.py and
// v1/metrics/loggers.py; SGLang's production metrics; ATOM entrypoints/openai/metrics and
// docs/forced_acceptance_length.md.
struct CounterNames {
  std::string_view engine;
  std::string_view prefix;  // of everything that the engine exports

  std::string_view drafts;                 // verification steps of single requests
  std::string_view draft_tokens;           // tokens drafted in them
  std::string_view accepted;               // of these, accepted
  std::string_view accepted_per_position;  // likewise by label "position", from 0
  // Verification steps by the number of accepted drafts, label "accepted_tokens": drafts, accepted and positions
  // follow.
  std::string_view steps_by_accepted;
  std::string_view prompt_tokens;
  std::string_view generation_tokens;
  std::string_view requests;          // finished ones
  std::string_view cache_queried;     // prompt tokens looked up in the prefix cache
  std::string_view cache_hits;        // of these, found
  std::string_view more_cache_hits;   // further ones, found in a second tier
  std::string_view acceptance_gauge;  // acceptance length of the engine's choosing: no counter, no difference
};

std::span<const CounterNames> counter_names();

// Null if there is no such engine, or it exports no text of this format.
const CounterNames* find_counter_names(std::string_view engine);

// Sums over engines and labels. Absent: the page (both pages, for a difference) has no such counter.
struct SpecCounters {
  std::optional<int64_t> drafts;
  std::optional<int64_t> draft_tokens;
  std::optional<int64_t> accepted;
  std::vector<int64_t> accepted_per_position;  // empty if the engine does not count it
  std::optional<int64_t> prompt_tokens;
  std::optional<int64_t> generation_tokens;
  std::optional<int64_t> requests;
  std::optional<int64_t> cache_queried;
  std::optional<int64_t> cache_hits;

  // 1 + accepted / drafts; absent without a step.
  std::optional<double> acceptance_length() const;
  // accepted / draft tokens; absent without a draft token.
  std::optional<double> draft_token_acceptance() const;
  // Share of the steps that accepted each position; empty if unknown.
  std::vector<double> per_position() const;
  // Cached share of the prompt tokens looked up (of all prompt tokens where the engine does not count look-ups).
  std::optional<double> cache_hit_rate() const;
};

// Fails if a counter that is used is not a whole number from 0 to 2^53, or is declared to be no counter.
diag::Result<SpecCounters> spec_counters(const MetricsPage& page, const CounterNames& names);

// What was counted between two readings, series by series: what the engine did before the first (warm-up, say) is not
// in it. A series that fell or is gone is an engine that restarted; that is reported (engine/counter-reset), and then
// the difference means nothing. A series that is new counts from zero.
diag::Result<SpecCounters> counted_between(const MetricsPage& before, const MetricsPage& after,
                                           const CounterNames& names, diag::Diagnostics& diagnostics);

}  // namespace sweep::engine
