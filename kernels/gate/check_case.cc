#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <thread>

#include "kernels/api/layout.h"
#include "kernels/gate/checks.h"
#include "kernels/gate/execute.h"
#include "kernels/gate/problem.h"
#include "kernels/oracle/number_formats.h"
#include "kernels/oracle/oracle.h"

namespace flashmla::gate {
namespace {

// Indexed by (batch * s_q + token) and head.
using Reference = std::vector<std::vector<oracle::Row>>;

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

struct Place {
  int32_t b, t, h;
};

template <typename... Arguments>
std::string text(const char* format, Arguments... arguments) {
  char buffer[400];
  std::snprintf(buffer, sizeof buffer, format, arguments...);
  return buffer;
}

// The errors of one library, and the worst place that is out of bounds (by how far it is out).
class Comparison {
 public:
  Comparison(const Problem& problem, const Outputs& outputs, const Tolerance& tolerance)
      : problem_(problem), outputs_(outputs), tolerance_(tolerance) {}

  void compare(Place place, const oracle::Row& row) {
    const double lse = outputs_.lse[static_cast<size_t>(problem_.lse_at(place.b, place.t, place.h))];
    const double excess = judge(lse, row.lse, tolerance_.lse(row), lse_errors);
    if (excess > worst_) {
      worst_ = excess;
      worst_text = text("lse[%d, %d, %d] is %.9g, the oracle says %.9g, tolerance %.3g", place.b, place.t, place.h, lse,
                        row.lse, tolerance_.lse(row));
    }
    const uint16_t* out = outputs_.out.data() + problem_.out_at(place.b, place.t, place.h);
    for (int32_t d = 0; d < kValueDims; ++d) {
      const auto dim = static_cast<size_t>(d);
      const double value = oracle::bf16_value(out[d]);
      const double bound = tolerance_.output(row, dim);
      const double out_excess = judge(value, row.out[dim], bound, output_errors);
      if (out_excess <= worst_) continue;
      worst_ = out_excess;
      worst_text = text("output[%d, %d, %d, %d] is %.9g, the oracle says %.9g, tolerance %.3g", place.b, place.t,
                        place.h, d, value, row.out[dim], bound);
    }
  }

  ErrorSummary output_errors, lse_errors;
  std::string worst_text;  // empty: everything is within the tolerance

 private:
  // By how many tolerances `value` is too far from `expected`; 0 = it is not.
  static double judge(double value, double expected, double bound, ErrorSummary& errors) {
    if (std::isnan(expected) || std::isinf(expected)) {
      const bool same = std::isnan(expected) ? std::isnan(value) : value == expected;
      return same ? 0.0 : std::numeric_limits<double>::infinity();
    }
    const double error = std::fabs(value - expected);
    if (std::isnan(error)) return std::numeric_limits<double>::infinity();
    errors.add(error);
    return error <= bound ? 0.0 : error / bound;
  }

  const Problem& problem_;
  const Outputs& outputs_;
  const Tolerance& tolerance_;
  double worst_ = 0;
};

Comparison compare(const Case& one, const Problem& problem, const Outputs& outputs, const Reference& reference,
                   const Tolerance& tolerance) {
  Comparison comparison(problem, outputs, tolerance);
  for (int32_t b = 0; b < one.batch; ++b) {
    for (int32_t t = 0; t < one.s_q; ++t) {
      for (int32_t h = 0; h < one.num_heads; ++h) {
        comparison.compare({b, t, h}, reference[static_cast<size_t>(int64_t{b} * one.s_q + t)][static_cast<size_t>(h)]);
      }
    }
  }
  return comparison;
}

// Where two runs first differ in their bytes.
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

}  // namespace

void ErrorSummary::add(double error) {
  if (error > max) max = error;
  sum += error;
  ++count;
}

Cell check_case(const Case& one, const Subjects& subjects, const Tolerance& tolerance, int32_t oracle_threads) {
  Cell cell;
  cell.name = one.name;
  cell.shape = one.shape();
  auto fail = [&](const char* check, std::string message) { cell.failures.push_back({check, std::move(message)}); };

  const Problem problem(one);
  const Execution first = execute(subjects.candidate, problem, one.dense);
  const Execution baseline = execute(subjects.baseline, problem, one.dense);
  if (first.status != FLASHMLA_OK) fail("status", "the candidate refuses a valid call: " + first.message);
  if (baseline.status != FLASHMLA_OK) fail("status", "the baseline refuses a valid call: " + baseline.message);
  if (!cell.passed()) return cell;

  const Reference reference = compute_reference(one, problem, oracle_threads);
  const Comparison candidate_errors = compare(one, problem, first.outputs, reference, tolerance);
  const Comparison baseline_errors = compare(one, problem, baseline.outputs, reference, tolerance);
  cell.output = candidate_errors.output_errors;
  cell.lse = candidate_errors.lse_errors;
  cell.baseline_output = baseline_errors.output_errors;
  cell.baseline_lse = baseline_errors.lse_errors;

  if (!candidate_errors.worst_text.empty()) fail("oracle", candidate_errors.worst_text);
  if (cell.output.mean() > cell.baseline_output.mean()) {
    fail("mean-error", text("mean error of the output is %.6g, the padded baseline has %.6g", cell.output.mean(),
                            cell.baseline_output.mean()));
  }
  if (cell.lse.mean() > cell.baseline_lse.mean()) {
    fail("mean-error", text("mean error of the LSE is %.6g, the padded baseline has %.6g", cell.lse.mean(),
                            cell.baseline_lse.mean()));
  }
  if (!problem.guards_intact(first.outputs)) fail("guards", "an output was written outside the addressed rows");
  if (!first.workspace_kept) fail("guards", "memory behind the workspace was written");
  if (!same_bytes(first.outputs, baseline.outputs)) {
    fail("padded",
         "differs from the padded baseline: " + first_difference(one, problem, first.outputs, baseline.outputs));
  }
  const Execution second = execute(subjects.candidate, problem, one.dense);
  if (!same_bytes(first.outputs, second.outputs)) {
    fail("repeat", "a second run differs: " + first_difference(one, problem, first.outputs, second.outputs));
  }
  const Execution single = execute(subjects.candidate_single, problem, one.dense);
  if (!same_bytes(first.outputs, single.outputs)) {
    fail("threads", "a run with one thread differs: " + first_difference(one, problem, first.outputs, single.outputs));
  }
  return cell;
}

}  // namespace flashmla::gate
