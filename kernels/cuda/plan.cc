#include "kernels/cuda/plan.h"

#include <algorithm>
#include <limits>

namespace flashmla::cuda {
namespace {

// Microseconds, like BlockTime.
constexpr double kCombine = 4.5;
constexpr double kPerPart = 0.05;
constexpr double kPerPartial = 0.001;  // of a head, in a part
constexpr int64_t kGroupTokens = 16;
constexpr int32_t kManyHeads = 64;
constexpr int64_t kTokensOfPart = 256;  // less is not worth a second kernel

int32_t most_heads(const Kernels& kernels, int32_t heads) {
  for (const Kernel& kernel : kernels) {
    if (kernel.heads >= heads) return kernel.heads;
  }
  return kernels.back().heads;
}

// Blocks with fewer heads are done sooner, where there are few rows: several with a part of 64 heads each, and any
// number of those for few tokens.
bool suits(const Kernel& kernel, int32_t most_heads) {
  return kernel.heads == most_heads || (most_heads == kManyHeads && kernel.heads >= kManyHeads / 4) ||
         (!kernel.sizes.empty() && kernel.heads < most_heads);
}

// The tokens that a block of `tokens` works on as if it had them.
int64_t counted_tokens(const Kernel& kernel, int64_t tokens) {
  const auto size = std::lower_bound(kernel.sizes.begin(), kernel.sizes.end(), tokens);
  return size != kernel.sizes.end() ? *size : round_up(tokens, kernel.step_tokens);
}

struct Choice {
  size_t kernel = 0;
  int32_t splits = 1;
  int32_t parts = 1;
  double time = std::numeric_limits<double>::infinity();
};

void consider(const Kernel& kernel, size_t index, const Occupancy& occupancy, const Work& work, int32_t least_parts,
              Choice& best) {
  const int64_t rows = work.rows * divide_up(work.heads, kernel.heads);
  const BlockTime& block = kernel.time;
  for (int32_t splits = 1; splits <= kMaxSplits; ++splits) {
    const int64_t at_once = occupancy.clusters[static_cast<size_t>(splits)];
    if (at_once == 0 || (kernel.splits >> splits & 1) == 0) continue;
    for (int32_t parts = least_parts; parts <= kMaxParts; parts *= 2) {
      const int64_t shards = int64_t{splits} * parts;
      const bool more_parts = parts > least_parts;
      // They are for devices that the rows do not fill.
      if (more_parts && rows * parts > at_once) break;
      const int64_t most_shards = divide_up(work.tokens, more_parts ? kTokensOfPart : kGroupTokens);
      if (shards > std::max<int64_t>(most_shards, least_parts)) break;
      const int64_t block_tokens = divide_up(work.tokens, shards);
      if (!kernel.sizes.empty() && block_tokens > kernel.sizes.back()) continue;
      const auto tokens = static_cast<double>(counted_tokens(kernel, block_tokens));
      const auto waves = static_cast<double>(divide_up(rows * parts, at_once));
      const bool shared =
          block.per_token_shared > 0 && std::min(rows * parts, at_once) * splits > occupancy.multiprocessors;
      const double of_tokens = (shared ? block.per_token_shared : block.per_token) * tokens +
                               block.per_copied * static_cast<double>(block_tokens);
      const double odd = splits % 2 == 1 ? block.odd : 0;
      const double merge = splits > 1 ? block.merge + block.per_split * splits + odd : 0;
      const double crowded =
          block.crowded * static_cast<double>(std::min(rows * parts, at_once)) / static_cast<double>(at_once);
      const bool turns = kernel.takes_turns && shards == 1;
      const double starts = turns ? block.start + block.again * (waves - 1) : block.start * waves;
      const double partials = static_cast<double>(work.rows) * work.heads * parts;
      const double combine = parts > 1 ? kCombine + kPerPart * parts + kPerPartial * partials : 0;
      const double time = starts + waves * (of_tokens + merge + crowded) + combine;
      if (time < best.time) best = {index, splits, parts, time};
    }
  }
}

}  // namespace

Plan make_plan(const Kernels& kernels, const std::vector<Occupancy>& occupancies, const Work& work,
               int32_t padded_heads, int32_t least_parts) {
  const int32_t most = most_heads(kernels, work.heads);
  Choice best;
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (suits(kernels[i], most)) consider(kernels[i], i, occupancies[i], work, least_parts, best);
  }
  Plan plan{&kernels[best.kernel], {}, 0};
  const auto head_blocks = static_cast<int32_t>(divide_up(padded_heads, plan.kernel->heads));
  plan.grid = {work.rows, head_blocks, best.splits, best.parts, work.rows * best.parts};
  if (plan.kernel->takes_turns && best.splits == 1 && best.parts == 1) {
    const int32_t at_once = occupancies[best.kernel].clusters[1] / head_blocks;
    plan.grid.clusters = std::min(work.rows, std::max(at_once, 1));
  }
  if (best.parts > 1) plan.workspace_bytes = partial_bytes(work.rows, work.heads, best.parts);
  return plan;
}

size_t partial_bytes(int32_t rows, int32_t heads, int32_t parts) {
  constexpr size_t kValues = kPartialDims + 2;
  return static_cast<size_t>(rows) * static_cast<size_t>(heads) * static_cast<size_t>(parts) * kValues * sizeof(float);
}

}  // namespace flashmla::cuda
