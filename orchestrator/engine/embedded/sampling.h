// From logits to tokens: plain sampling, rejection sampling of drafts, and the explicit acceptance schedule.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "orchestrator/base/rng.h"

namespace sweep::engine::embedded {

// A logit no token is chosen with; finite, so that differences stay numbers.
inline constexpr float kImpossibleLogit = -1e30F;

// The index of the largest value; the first of equal ones.
int32_t greedy_token(std::span<const float> logits);

// softmax(logits / temperature), temperature > 0.
std::vector<double> softmax(std::span<const float> logits, double temperature);

// The first index whose cumulative share of the total exceeds `uniform` (in [0, 1)). Shares need not sum to 1.
int32_t sample_token(std::span<const double> shares, double uniform);

// How many drafts an explicit acceptance length accepts in one step: floor(length - 1), and one more with the
// probability of the fraction. Of all schedules with this mean it has the least variance.
class AcceptanceSchedule {
 public:
  // 1 <= length <= drafts + 1
  explicit AcceptanceSchedule(double length);
  int64_t next(base::SplitMix64& random) const;

 private:
  int64_t always_;
  double fraction_;
};

struct Verdict {
  int64_t accepted = 0;    // leading drafts that stand
  int32_t next_token = 0;  // the target's own token after them
};

// Temperature 0: a draft stands while it is what the target would have chosen. `target(i)` gives the target's logits
// after i drafts, 0 <= i <= drafts.size(); only those needed are asked for.
Verdict verify_greedy(std::span<const int32_t> drafts, const std::function<std::span<const float>(int64_t)>& target);

// Rejection sampling (Leviathan, Kalman, Matias: "Fast inference from transformers via speculative decoding", ICML
// 2023): draft d stands with probability min(1, p(d) / q(d)); the first that falls is replaced by a sample of the
// normalised positive part of p - q; if none falls, one more token comes from p. The tokens are distributed as if
// sampled from p alone. `proposal(i)` gives the distribution that draft i was sampled from, `target(i)` that of the
// target after i drafts.
Verdict verify_sampled(std::span<const int32_t> drafts, const std::function<std::span<const double>(int64_t)>& proposal,
                       const std::function<std::vector<double>(int64_t)>& target, base::SplitMix64& random);

}  // namespace sweep::engine::embedded
