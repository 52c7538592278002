// The points of matrix entries, one by one, with the path that messages name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "orchestrator/schema/config.h"

namespace sweep::schema {

// One search-space entry in its block. `fixed` or `agentic` is set.
struct PointView {
  const MatrixEntry* entry = nullptr;
  const FixedSeqLen* fixed = nullptr;
  const AgenticCoding* agentic = nullptr;
  const Point* point = nullptr;
  const yaml::Node* source = nullptr;  // the point as written
  std::string path;                    // "KEY.scenarios.fixed-seq-len[0].search-space[1]"
  std::string block_path;              // "KEY.scenarios.fixed-seq-len[0]"
};

std::vector<PointView> points_of(const MatrixEntry& entry);

// A list as written; a range by multiplying with `step` from conc-start, ending exactly at conc-end (4 to 50 by 3:
// 4, 12, 36, 50). Empty if neither is usable.
std::vector<int64_t> concurrencies_of(const Point& point, int64_t step = 2);

}  // namespace sweep::schema
