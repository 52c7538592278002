// How a call is spread over the device. A plan depends on shapes, never on what lies behind a pointer, so that a captured
// call stays right when lengths and indices change.
#pragma once

#include <array>
#include <cstddef>

#include "kernels/cuda/launch.h"

namespace flashmla::cuda {

// What the plan needs to know of a device: how many clusters of each size run at the same time, for each kernel.
struct Occupancy {
  std::array<int32_t, kMaxSplits + 1> clusters;  // [blocks per cluster]; 0: such clusters cannot run
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

// The kernel with the least heads that are enough, or the one with the most.
const Kernel& choose_kernel(const Kernels& kernels, int32_t heads);

// `padded_heads` (a multiple of 1 or 64) are computed, but the kernel and its splits are those for `work.heads`: a head's
// result must not depend on the padding.
Plan make_plan(const Kernel& kernel, const Occupancy& occupancy, const Work& work, int32_t padded_heads);

}  // namespace flashmla::cuda
