// Summary figures of a set of measurements. Pure maths: no units, no I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sweep::stats {

// A percentile in tenths of a percent, so that the minimum count below is exact: {900} is p90.
struct Percentile {
  int per_mille = 500;
};
inline constexpr Percentile kP50{500};
inline constexpr Percentile kP90{900};
inline constexpr Percentile kP99{990};

// The fewest values for which a percentile says anything: at least one value is expected above it, count * (1 - p)
// >= 1. 2 for p50, 10 for p90, 100 for p99.
int64_t minimum_count(Percentile percentile);

// Linear interpolation between the closest ranks, position p * (count - 1) (Hyndman and Fan 1996, definition 7; the
// default of NumPy and R). `sorted` ascends, is not empty and holds only finite values. Has no minimum count.
double quantile_linear(std::span<const double> sorted, double p);

// The percentile, or nothing below its minimum count.
std::optional<double> percentile(std::span<const double> sorted, Percentile percentile);

struct Distribution {
  int64_t count = 0;
  // Absent where the values do not support them: all for no value, stddev for one, percentiles below their minimum.
  std::optional<double> mean;
  std::optional<double> stddev;  // of the sample, divisor count - 1
  std::optional<double> min;
  std::optional<double> max;
  std::optional<double> p50;
  std::optional<double> p90;
  std::optional<double> p99;
};

// Nothing if a value is NaN or infinite. The order of the values does not matter.
std::optional<Distribution> describe(std::vector<double> values);

// Sum of finite values with the error of rounding carried along (Neumaier 1974).
double stable_sum(std::span<const double> values);

}  // namespace sweep::stats
