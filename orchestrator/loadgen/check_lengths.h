// The lengths of a reply against those that were asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/sample/sample.h"

namespace sweep::loadgen {

// In tokens. Absent where a recording does not say.
struct AskedLengths {
  std::optional<int64_t> isl;
  std::optional<int64_t> osl;
};

// What is wrong with the lengths of a reply that is otherwise complete.
std::vector<diag::Diagnostic> check_lengths(const sample::Sample& sample, const AskedLengths& asked);

}  // namespace sweep::loadgen
