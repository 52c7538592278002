// What a candidate library has to pass.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/gate/cases.h"
#include "kernels/gate/library.h"
#include "kernels/gate/tolerance.h"

namespace flashmla::gate {

struct ErrorSummary {
  double max = 0;
  double sum = 0;
  int64_t count = 0;
  void add(double error);
  double mean() const { return count > 0 ? sum / static_cast<double>(count) : 0.0; }
};

struct Failure {
  std::string check;    // "oracle", "guards", "repeat", "threads", "padded", "mean-error", "status" or "arguments"
  std::string message;  // with coordinates and both values where there are any
};

struct Cell {
  std::string name;
  std::string shape;
  ErrorSummary output, lse;                    // of the candidate against the oracle
  ErrorSummary baseline_output, baseline_lse;  // of the padded baseline against the oracle
  std::vector<Failure> failures;
  bool passed() const { return failures.empty(); }
};

// The contexts a gate runs on. All must be ok().
struct Subjects {
  const Context& candidate;         // with several threads
  const Context& candidate_single;  // with one
  const Context& baseline;          // the padded build
};

// `oracle_threads` >= 1 threads compute the reference.
Cell check_case(const Case& one, const Subjects& subjects, const Tolerance& tolerance, int32_t oracle_threads);

// Calls that must be refused, with outputs untouched and a message.
Cell check_arguments(const Context& candidate);

}  // namespace flashmla::gate
