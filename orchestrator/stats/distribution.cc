#include "orchestrator/stats/distribution.h"

#include <algorithm>
#include <cmath>

namespace sweep::stats {

namespace {
constexpr int64_t kWholePerMille = 1000;
}

int64_t minimum_count(Percentile percentile) {
  const int64_t above = kWholePerMille - percentile.per_mille;
  return above <= 0 ? INT64_MAX : (kWholePerMille + above - 1) / above;
}

double quantile_linear(std::span<const double> sorted, double p) {
  const double position = p * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(std::floor(position));
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double fraction = position - static_cast<double>(below);
  return std::lerp(sorted[below], sorted[above], fraction);
}

std::optional<double> percentile(std::span<const double> sorted, Percentile percentile) {
  if (static_cast<int64_t>(sorted.size()) < minimum_count(percentile)) return std::nullopt;
  return quantile_linear(sorted, percentile.per_mille / static_cast<double>(kWholePerMille));
}

double stable_sum(std::span<const double> values) {
  double sum = 0;
  double lost = 0;
  for (const double value : values) {
    const double next = sum + value;
    lost += std::abs(sum) >= std::abs(value) ? (sum - next) + value : (value - next) + sum;
    sum = next;
  }
  return sum + lost;
}

std::optional<Distribution> describe(std::vector<double> values) {
  if (!std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); }))
    return std::nullopt;
  Distribution result;
  result.count = static_cast<int64_t>(values.size());
  if (values.empty()) return result;
  std::sort(values.begin(), values.end());  // also makes the sums independent of the order
  const auto count = static_cast<double>(values.size());
  result.mean = std::clamp(stable_sum(values) / count, values.front(), values.back());
  result.min = values.front();
  result.max = values.back();
  result.p50 = percentile(values, kP50);
  result.p90 = percentile(values, kP90);
  result.p99 = percentile(values, kP99);
  if (values.size() > 1) {
    std::vector<double> squares;
    squares.reserve(values.size());
    for (const double value : values) squares.push_back((value - *result.mean) * (value - *result.mean));
    result.stddev = std::sqrt(stable_sum(squares) / (count - 1));
  }
  return result;
}

}  // namespace sweep::stats
