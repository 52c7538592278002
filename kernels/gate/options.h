// The command line of flashmla-gate.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/gate/cases.h"

namespace flashmla::gate {

struct Options {
  std::string library, baseline, report;
  CaseSet cases = CaseSet::kQuick;
  std::string filter;
  uint64_t seed = 1;
  int32_t threads = 0;
  int32_t device = 0;
  int32_t repeats = 0;  // 0: repeats_of()
  bool help = false;
};

extern const char* const kUsageText;

// Nothing, with a message, if the arguments make no sense.
std::optional<Options> parse_options(int argc, char** argv, std::string& error);

}  // namespace flashmla::gate
