#include "kernels/cuda/plan.h"

#include <algorithm>
#include <limits>

namespace flashmla::cuda {
namespace {

// A rough model of one block, fitted to an H200 (PERF.md): microseconds.
constexpr double kBlockStart = 3.5;
constexpr double kPerToken = 0.040;  // of a block
constexpr double kMerge = 1.5;
constexpr double kCombine = 2.0;
constexpr int64_t kTileTokens = 64;
constexpr int32_t kMaxParts = 64;

constexpr int64_t divide_up(int64_t number, int64_t by) {
  return (number + by - 1) / by;
}

}  // namespace

const Kernel& choose_kernel(const Kernels& kernels, int32_t heads) {
  for (const Kernel& kernel : kernels) {
    if (kernel.heads >= heads) return kernel;
  }
  return kernels.back();
}

Plan make_plan(const Kernel& kernel, const Occupancy& occupancy, const Work& work, int32_t padded_heads) {
  const int64_t head_blocks = divide_up(work.heads, kernel.heads);
  const int64_t rows = int64_t{work.rows} * head_blocks;
  int32_t best_splits = 1;
  int32_t best_parts = 1;
  double best = std::numeric_limits<double>::infinity();
  for (int32_t splits = 1; splits <= kMaxSplits; ++splits) {
    const int64_t at_once = occupancy.clusters[static_cast<size_t>(splits)];
    if (at_once == 0 || splits > kernel.most_splits) continue;
    for (int32_t parts = 1; parts <= kMaxParts; parts *= 2) {
      const int64_t shards = int64_t{splits} * parts;
      if (shards > 1 && shards > divide_up(work.tokens, 16)) break;
      const int64_t tokens = divide_up(divide_up(work.tokens, shards), kTileTokens) * kTileTokens;
      const double waves = static_cast<double>(divide_up(rows * parts, at_once));
      const double time = waves * (kBlockStart + kPerToken * static_cast<double>(tokens) + (splits > 1 ? kMerge : 0)) +
                          (parts > 1 ? kCombine + 0.05 * parts : 0);
      if (time >= best) continue;
      best = time;
      best_splits = splits;
      best_parts = parts;
    }
  }
  Plan plan{&kernel, {}, 0};
  plan.grid.rows = work.rows;
  plan.grid.head_blocks = static_cast<int32_t>(divide_up(padded_heads, kernel.heads));
  plan.grid.splits = best_splits;
  plan.grid.parts = best_parts;
  if (best_parts > 1) plan.workspace_bytes = partial_bytes(work.rows, work.heads, best_parts);
  return plan;
}

}  // namespace flashmla::cuda
