// How a call is spread over the device. A plan depends on shapes, never on what lies behind a pointer, so that a
// captured call stays right when lengths and indices change.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "kernels/cuda/launch.h"

namespace flashmla::cuda {

// What the plan needs to know of a device: how many clusters of each size run at the same time, for each kernel.
struct Occupancy {
  std::array<int32_t, kMaxSplits + 1> clusters;  // [blocks per cluster]; 0: such clusters cannot run
  int32_t multiprocessors;
};

struct Work {
  int32_t rows;    // sparse: query tokens of all requests; dense: requests
  int32_t heads;   // of a row; dense: of all its query tokens
  int64_t tokens;  // of a row, at most
};

struct Plan {
  const Kernel* kernel;
  Grid grid;
  size_t workspace_bytes;
};

// `number` / `by`, rounded up; both positive, or `number` 0.
constexpr int64_t divide_up(int64_t number, int64_t by) {
  return (number + by - 1) / by;
}
constexpr int64_t round_up(int64_t number, int64_t multiple) {
  return divide_up(number, multiple) * multiple;
}

// Chooses among the kernels with the least heads that are enough, or the most there are, and, where those are 64, a
// half or a quarter of them, and kernels for few tokens with fewer; `occupancies` as `kernels`. `padded_heads` (a
// multiple of 1 or 64) are computed, but in the way that suits `work.heads`: a head's result must not depend on the
// padding. `least_parts`: 2 if the results are to be added to those of another plan.
Plan make_plan(const Kernels& kernels, const std::vector<Occupancy>& occupancies, const Work& work,
               int32_t padded_heads, int32_t least_parts = 1);

// Bytes of the results of `parts` clusters for each row (DecodeArguments::partial): kPartialDims values, maximum and
// sum for each head.
size_t partial_bytes(int32_t rows, int32_t heads, int32_t parts);

}  // namespace flashmla::cuda
