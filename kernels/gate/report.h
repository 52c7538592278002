// The report of a gate: JSON for machines, a few lines on stderr for people.
#pragma once

#include <string>
#include <vector>

#include "kernels/gate/checks.h"
#include "kernels/gate/library.h"

namespace flashmla::gate {

constexpr int kReportSchemaVersion = 1;

struct Report {
  std::string library, baseline;  // paths as given
  flashmla_build library_build{}, baseline_build{};
  uint64_t seed = 0;
  std::string cases;  // "quick" or "full"
  int32_t threads = 0;
  Tolerance tolerance;
  std::vector<Cell> cells;

  bool passed() const;
};

std::string to_json(const Report& report);

// Writes to a temporary name next to `path`, then renames. False with a reason in `error` if that fails.
bool write_report(const Report& report, const std::string& path, std::string& error);

}  // namespace flashmla::gate
