#include "kernels/gate/groups.h"

#include <algorithm>

#include "kernels/gate/text.h"

namespace flashmla::gate {

std::vector<Group> groups_of(const std::vector<Cell>& cells) {
  std::vector<Group> groups;
  for (const Cell& cell : cells) {
    if (cell.group.empty()) continue;
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& one) { return one.name == cell.group; });
    if (group == groups.end()) group = groups.insert(groups.end(), {.name = cell.group});
    ++group->cells;
    if (!cell.passed()) ++group->failed;
    group->repeats += cell.repeats;
    group->all.add(cell.errors);
    if (cell.ordinary) group->ordinary.add(cell.errors);
  }
  return groups;
}

std::vector<Cell> check_floors(const std::vector<Group>& groups) {
  std::vector<Cell> cells;
  for (const Group& group : groups) {
    Cell cell;
    cell.name = "lse-floor-" + group.name;
    cell.shape = "all ordinary cells of " + group.name;
    const double ratio = group.ordinary.lse_ratio();
    if (ratio > kMostLseOverFloor) {
      cell.fail("floor", text("mean error of the LSE is %.3g, %.3g times that of rounding to FP32 alone, at most %.3g",
                              group.ordinary.lse.mean(), ratio, kMostLseOverFloor));
    }
    cells.push_back(std::move(cell));
  }
  return cells;
}

}  // namespace flashmla::gate
