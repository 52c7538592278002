// Outputs of a library against the oracle, and against one another.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/gate/cases.h"
#include "kernels/gate/problem.h"
#include "kernels/gate/tolerance.h"
#include "kernels/oracle/oracle.h"

namespace flashmla::gate {

// Of values whose expected value is finite.
struct ErrorSummary {
  double max = 0;
  double sum = 0;
  double squares = 0;           // of the errors
  double expected_squares = 0;  // of the expected values
  int64_t count = 0;

  void add(double error, double expected);
  void add(const ErrorSummary& other);
  double mean() const { return count > 0 ? sum / static_cast<double>(count) : 0.0; }
  double relative_frobenius() const;  // sqrt(squares / expected_squares); 0 if nothing is expected
};

// Indexed by (batch * s_q + token) and head.
using Reference = std::vector<std::vector<oracle::Row>>;

Reference compute_reference(const Case& one, const Problem& problem, int32_t threads);

struct Comparison {
  ErrorSummary output, lse;
  ErrorSummary lse_floor;  // of the expected LSE rounded to FP32: no library can be better
  std::string worst;       // the place furthest out of bounds, with both values; empty if there is none
};

Comparison compare(const Case& one, const Problem& problem, const Outputs& outputs, const Reference& reference,
                   const Tolerance& tolerance);

// Where two runs first differ in their bytes.
std::string first_difference(const Case& one, const Problem& problem, const Outputs& a, const Outputs& b);

}  // namespace flashmla::gate
