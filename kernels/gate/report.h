// The report of a gate: JSON for machines, a few lines on stderr for people. README.md in the folder above lists the
// fields.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/device/driver.h"
#include "kernels/gate/checks.h"
#include "kernels/gate/library.h"

namespace flashmla::gate {

constexpr int kReportSchemaVersion = 1;

struct Report {
  std::string library, baseline;  // paths as given
  flashmla_build library_build{}, baseline_build{};
  std::optional<device::DeviceInfo> device;  // of a library that works on one
  uint64_t seed = 0;
  std::string cases;   // "quick" or "full"
  std::string filter;  // empty: all of them
  int32_t threads = 0;
  std::vector<Cell> cells;
  std::string stopped;  // why cells are missing; empty if none is

  bool passed() const;
};

// The cells of one record format or of one kind of dense decode, taken together.
struct Group {
  std::string name;  // Case::group()
  int64_t cells = 0;
  int64_t failed = 0;
  int64_t repeats = 0;
  Errors all;
  Errors ordinary;  // of the cells whose numbers are such as models have
};

std::vector<Group> groups_of(const std::vector<Cell>& cells);

std::string to_json(const Report& report);

// Writes to a temporary name next to `path`, then renames. False with a reason in `error` if that fails.
bool write_report(const Report& report, const std::string& path, std::string& error);

}  // namespace flashmla::gate
