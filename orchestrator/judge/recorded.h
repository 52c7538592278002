// Conditions that are decided from what an engine itself recorded: its counters, its decode windows, its log.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/judge/verdict.h"

namespace sweep::judge {

// How far a recorded mean may be from the asked one beside what chance explains, unless another distance is asked for.
double recorded_within();

struct RealisedAcceptance {
  std::optional<double> length;  // over all steps, or the mean of the windows' means
  bool weighted = false;         // the former
  std::vector<double> windows;   // means of the windows; empty if there are none
  int64_t draws = 0;             // independent draws of a forced acceptance behind `length`; 0 if unknown
};

struct AskedAcceptance {
  std::optional<double> length;  // absent: there is no value to meet
  double within = recorded_within();
  bool exactly = false;  // `within` was asked for: chance does not widen it
};

// The half-width that is applied to the mean: `within`, or the 3.3 standard deviations of its draws if that is more and
// `within` was not asked for.
double acceptance_half_width(const RealisedAcceptance& realised, const AskedAcceptance& asked);

Condition acceptance_near(const RealisedAcceptance& realised, const AskedAcceptance& asked);

// Not applicable where nothing was drafted, or a length of 1 was asked for.
struct Drafting {
  std::optional<int64_t> drafted;   // tokens, or steps where tokens are not counted
  std::optional<int64_t> accepted;  // absent: known from `length` only
  std::optional<double> length;
};
Condition draft_alive(const Drafting& drafting, const AskedAcceptance& asked);

Condition cache_cold(const std::optional<int64_t>& cached, const std::optional<int64_t>& looked_up);

// `lines` of the log tell of compilation; `first` is the first of them, with its number.
Condition nothing_compiled(size_t lines, const std::string& first);

}  // namespace sweep::judge
