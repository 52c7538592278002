#include "kernels/cuda/dense_plan.h"

#include <algorithm>
#include <limits>

#include "kernels/cuda/tensor_map.h"

namespace flashmla::cuda {
namespace {

// A rough model of one block, fitted to an H200 (PERF.md), in microseconds. A tile costs what its block needs for it,
// or what the memory needs, if that is more; blocks that share tokens read them together.
constexpr double kStart = 4.7;
constexpr double kTile = 0.78;
constexpr double kTilePerRow = 0.03;
constexpr double kTileReadAlone = 0.6;
constexpr double kTileRead = 1.64;  // in addition, where all multiprocessors read
constexpr double kMergePerRow = 0.165;
constexpr double kPerSplit = 0.057;
constexpr double kDenseCombine = 1.95;
constexpr double kDensePerPart = 0.076;
constexpr double kDensePerPartial = 0.0012;  // of one row
constexpr double kSpread = 1.05;             // the model is to be sure that sharing tokens pays

constexpr int32_t kTileTokens = 64;
constexpr int32_t kLeastBoxTokens = 16;

}  // namespace

int32_t box_tokens(const Pool& pool) {
  if (pool.num_slots == 0 || pool.page_stride >= kStrideLimit || pool.row_stride >= kStrideLimit) return 0;
  int32_t tokens = kTileTokens;
  while (pool.page_size.divisor % static_cast<uint32_t>(tokens) != 0) tokens /= 2;
  return tokens >= kLeastBoxTokens ? tokens : 0;
}

Plan make_dense_plan(const Kernels& kernels, const std::vector<Occupancy>& occupancies, const Work& work,
                     int32_t padded_heads) {
  const Kernel* enough = &kernels.front();  // the fewest heads that are, or the most there are
  for (const Kernel& kernel : kernels) {
    if (enough->heads < work.heads) enough = &kernel;
  }
  const int64_t tiles = std::max<int64_t>(divide_up(work.tokens, kTileTokens), 1);
  Plan plan{enough, {work.rows, 0, 1, 1, 0}, 0};
  double best = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < kernels.size(); ++i) {
    const Kernel& kernel = kernels[i];
    // Of blocks of fewer heads than are enough those of half as many, and of 32, were measured (PERF.md).
    const bool measured = kernel.heads == enough->heads || kernel.heads == 32 || 2 * kernel.heads == enough->heads;
    if (kernel.heads > enough->heads || !measured) continue;
    const Occupancy& occupancy = occupancies[i];
    const int64_t sharers = divide_up(work.heads, kernel.heads) * kernel.slices;  // of the same tokens
    const int64_t rows = work.rows * sharers;
    // Slices, blocks of fewer heads and a second kernel are for what leaves multiprocessors idle.
    const bool spreads = kernel.heads < enough->heads || kernel.slices > 1;
    const double merge = kMergePerRow * kernel.heads / kernel.slices;
    const double block_tile = kTile + kTilePerRow * kernel.heads;
    for (int32_t splits = 1; splits <= kMaxSplits; ++splits) {
      const int64_t at_once = occupancy.clusters[static_cast<size_t>(splits)];
      if (at_once == 0 || splits > tiles) continue;
      for (int32_t parts = 1; parts <= kMaxParts && int64_t{splits} * parts <= tiles; ++parts) {
        if ((parts > 1 || spreads) && rows * parts > at_once) break;
        const auto waves = static_cast<double>(divide_up(rows * parts, at_once));
        const double readers =
            static_cast<double>(std::min(rows * parts, at_once) * splits) / static_cast<double>(sharers);
        const double tile = std::max(block_tile, kTileReadAlone + kTileRead * readers / occupancy.multiprocessors);
        const auto tiles_of_block = static_cast<double>(divide_up(tiles, int64_t{splits} * parts));
        double time = waves * (kStart + tile * tiles_of_block + (splits > 1 ? merge + kPerSplit * splits : 0));
        if (parts > 1) {
          time += kDenseCombine + kDensePerPart * parts +
                  kDensePerPartial * static_cast<double>(int64_t{work.rows} * work.heads * parts);
        }
        if (spreads) time *= kSpread;
        if (time >= best) continue;
        best = time;
        plan.kernel = &kernel;
        plan.grid.splits = splits;
        plan.grid.parts = parts;
      }
    }
  }
  plan.grid.head_blocks = static_cast<int32_t>(divide_up(padded_heads, plan.kernel->heads));
  plan.grid.clusters = work.rows * plan.grid.parts;
  if (plan.grid.parts > 1) plan.workspace_bytes = partial_bytes(work.rows, work.heads, plan.grid.parts);
  return plan;
}

}  // namespace flashmla::cuda
