#include "kernels/gate/compare.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "kernels/api/layout.h"
#include "kernels/gate/text.h"
#include "kernels/oracle/number_formats.h"

namespace flashmla::gate {
namespace {

struct Place {
  int32_t b, t, h;
};

class Judge {
 public:
  Judge(const Problem& problem, const Outputs& outputs, const Tolerance& tolerance)
      : problem_(problem), outputs_(outputs), tolerance_(tolerance) {}

  void look_at(Place place, const oracle::Row& row) {
    const double lse = outputs_.lse[static_cast<size_t>(problem_.lse_at(place.b, place.t, place.h))];
    const double excess = judge(lse, row.lse, tolerance_.lse(row), comparison_.lse);
    if (std::isfinite(row.lse)) {
      comparison_.lse_floor.add(std::fabs(static_cast<double>(static_cast<float>(row.lse)) - row.lse), row.lse);
    }
    if (excess > worst_) {
      worst_ = excess;
      comparison_.worst = text("lse[%d, %d, %d] is %.9g, the oracle says %.9g, tolerance %.3g", place.b, place.t,
                               place.h, lse, row.lse, tolerance_.lse(row));
    }
    const uint16_t* out = outputs_.out.data() + problem_.out_at(place.b, place.t, place.h);
    for (int32_t d = 0; d < kValueDims; ++d) {
      const auto dim = static_cast<size_t>(d);
      const double value = oracle::bf16_value(out[d]);
      const double bound = tolerance_.output(row, dim);
      const double out_excess = judge(value, row.out[dim], bound, comparison_.output);
      if (out_excess <= worst_) continue;
      worst_ = out_excess;
      comparison_.worst = text("output[%d, %d, %d, %d] is %.9g, the oracle says %.9g, tolerance %.3g", place.b, place.t,
                               place.h, d, value, row.out[dim], bound);
    }
  }

  Comparison take() { return std::move(comparison_); }

 private:
  // By how many tolerances `value` is too far from `expected`; 0 = it is not.
  static double judge(double value, double expected, double bound, ErrorSummary& errors) {
    if (std::isnan(expected) || std::isinf(expected)) {
      const bool same = std::isnan(expected) ? std::isnan(value) : value == expected;
      return same ? 0.0 : std::numeric_limits<double>::infinity();
    }
    const double error = std::fabs(value - expected);
    if (!std::isfinite(error)) return std::numeric_limits<double>::infinity();
    errors.add(error, expected);
    return error <= bound ? 0.0 : error / bound;
  }

  const Problem& problem_;
  const Outputs& outputs_;
  const Tolerance& tolerance_;
  Comparison comparison_;
  double worst_ = 0;
};

}  // namespace

void ErrorSummary::add(double error, double expected) {
  if (error > max) max = error;
  sum += error;
  squares += error * error;
  expected_squares += expected * expected;
  ++count;
}

void ErrorSummary::add(const ErrorSummary& other) {
  if (other.max > max) max = other.max;
  sum += other.sum;
  squares += other.squares;
  expected_squares += other.expected_squares;
  count += other.count;
}

double ErrorSummary::relative_frobenius() const {
  return expected_squares > 0 ? std::sqrt(squares / expected_squares) : 0.0;
}

Reference compute_reference(const Case& one, const Problem& problem, int32_t threads) {
  const int32_t rows = one.batch * one.s_q;
  Reference reference(static_cast<size_t>(rows));
  std::atomic<int32_t> next = 0;
  auto work = [&] {
    for (int32_t row = next++; row < rows; row = next++) {
      const int32_t b = row / one.s_q;
      const int32_t t = row % one.s_q;
      reference[static_cast<size_t>(row)] =
          one.dense ? oracle::dense_decode(problem.dense(), b, t) : oracle::sparse_decode(problem.sparse(), b, t);
    }
  };
  std::vector<std::thread> helpers;
  for (int32_t i = 1; i < threads; ++i) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();
  return reference;
}

Comparison compare(const Case& one, const Problem& problem, const Outputs& outputs, const Reference& reference,
                   const Tolerance& tolerance) {
  Judge judge(problem, outputs, tolerance);
  for (int32_t b = 0; b < one.batch; ++b) {
    for (int32_t t = 0; t < one.s_q; ++t) {
      for (int32_t h = 0; h < one.num_heads; ++h) {
        judge.look_at({b, t, h}, reference[static_cast<size_t>(int64_t{b} * one.s_q + t)][static_cast<size_t>(h)]);
      }
    }
  }
  return judge.take();
}

std::string first_difference(const Case& one, const Problem& problem, const Outputs& a, const Outputs& b) {
  for (int32_t r = 0; r < one.batch; ++r) {
    for (int32_t t = 0; t < one.s_q; ++t) {
      for (int32_t h = 0; h < one.num_heads; ++h) {
        const auto lse = static_cast<size_t>(problem.lse_at(r, t, h));
        // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): the bits are to be equal, NaN and -0 included
        if (std::memcmp(&a.lse[lse], &b.lse[lse], sizeof(float)) != 0) {
          return text("lse[%d, %d, %d] is %.9g, then %.9g", r, t, h, static_cast<double>(a.lse[lse]),
                      static_cast<double>(b.lse[lse]));
        }
        for (int32_t d = 0; d < kValueDims; ++d) {
          const auto out = static_cast<size_t>(problem.out_at(r, t, h) + d);
          if (a.out[out] == b.out[out]) continue;
          return text("output[%d, %d, %d, %d] is %.9g, then %.9g", r, t, h, d, oracle::bf16_value(a.out[out]),
                      oracle::bf16_value(b.out[out]));
        }
      }
    }
  }
  return "they differ outside the addressed rows";
}

}  // namespace flashmla::gate
