// Cells of one kind taken together: errors that mean something only over many values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/gate/checks.h"

namespace flashmla::gate {

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

// The mean error of the LSE over a group's ordinary cells, in units of what rounding the oracle's LSE to FP32 costs.
constexpr double kMostLseOverFloor = 1.5;

// A cell "lse-floor-GROUP" for each group: failed if it is above that.
std::vector<Cell> check_floors(const std::vector<Group>& groups);

}  // namespace flashmla::gate
