#include "orchestrator/engine/embedded/sampling.h"

#include <algorithm>
#include <cmath>

#include "orchestrator/base/check.h"

namespace sweep::engine::embedded {

int32_t greedy_token(std::span<const float> logits) {
  SWEEPCTL_CHECK(!logits.empty());
  size_t best = 0;
  for (size_t i = 1; i < logits.size(); ++i) {
    if (logits[i] > logits[best]) best = i;
  }
  return static_cast<int32_t>(best);
}

std::vector<double> softmax(std::span<const float> logits, double temperature) {
  std::vector<double> shares(logits.size());
  const double largest = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double total = 0;
  for (size_t i = 0; i < shares.size(); ++i) {
    shares[i] = std::exp((static_cast<double>(logits[i]) - largest) / temperature);
    total += shares[i];
  }
  for (double& share : shares) share /= total;
  return shares;
}

int32_t sample_token(std::span<const double> shares, double uniform) {
  SWEEPCTL_CHECK(!shares.empty());
  double total = 0;
  for (const double share : shares) total += share;
  const double wanted = uniform * total;
  double sum = 0;
  size_t last = 0;  // of those with a share: rounding may leave the sum below what is wanted
  for (size_t i = 0; i < shares.size(); ++i) {
    if (!(shares[i] > 0)) continue;
    sum += shares[i];
    last = i;
    if (sum > wanted) break;
  }
  return static_cast<int32_t>(last);
}

AcceptanceSchedule::AcceptanceSchedule(double length)
    : always_(static_cast<int64_t>(std::floor(length - 1))), fraction_(length - 1 - std::floor(length - 1)) {}

int64_t AcceptanceSchedule::next(base::SplitMix64& random) const {
  return always_ + (random.uniform() < fraction_ ? 1 : 0);
}

Verdict verify_greedy(std::span<const int32_t> drafts, const std::function<std::span<const float>(int64_t)>& target) {
  for (size_t i = 0; i < drafts.size(); ++i) {
    const int32_t wanted = greedy_token(target(static_cast<int64_t>(i)));
    if (wanted != drafts[i]) return {static_cast<int64_t>(i), wanted};
  }
  const auto all = static_cast<int64_t>(drafts.size());
  return {all, greedy_token(target(all))};
}

Verdict verify_sampled(std::span<const int32_t> drafts, const std::function<std::span<const double>(int64_t)>& proposal,
                       const std::function<std::vector<double>(int64_t)>& target, base::SplitMix64& random) {
  for (size_t i = 0; i < drafts.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    std::vector<double> p = target(index);
    const std::span<const double> q = proposal(index);
    const auto draft = static_cast<size_t>(drafts[i]);
    if (random.uniform() * q[draft] < p[draft]) continue;
    std::vector<double> residual(p.size());
    double total = 0;
    for (size_t t = 0; t < p.size(); ++t) {
      residual[t] = std::max(0.0, p[t] - q[t]);
      total += residual[t];
    }
    // p = q up to rounding: nothing remains, and p itself is the right distribution.
    return {index, sample_token(total > 0 ? residual : p, random.uniform())};
  }
  const auto all = static_cast<int64_t>(drafts.size());
  return {all, sample_token(target(all), random.uniform())};
}

}  // namespace sweep::engine::embedded
