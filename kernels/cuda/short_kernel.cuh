// The kernel for few rows: a block has one tile of tokens, and what limits it is the way from an index to the merged
// result. So there is no loop over tiles, and nothing waits for more than it needs.
//
//   tokens   a bulk copy each; lengths and indices are asked for together
//   QK^T     a warp has a chunk of every token; the first ones while others are on their way
//   softmax  a warp has all tokens of a head; meanwhile values are read and converted
//   PV       a warp has the same chunk; the results go to the other blocks of the cluster at once
//   merge    what the results are multiplied with is known before they have arrived
#pragma once

#include <type_traits>
#include <utility>

#include "kernels/cuda/kernel.cuh"
#include "kernels/cuda/short_merge.cuh"
#include "kernels/cuda/short_score.cuh"

namespace flashmla::cuda {

template <typename Layout>
struct ShortWork {
  static constexpr int kHeadsOfWarp = Layout::kHeads / kShortWarps;
  uint8_t* shared;
  int warp, lane;
  uint32_t present;
  HeadSums sums[kHeadsOfWarp];
  ShortResults<Layout> results = {};
  float by;  // of the results

  // Softmax and value product of kActive groups.
  template <int kActive>
  __device__ __forceinline__ void attend(int groups) {
    const ValueRows<Layout> rows = {shared, warp, lane >> 2, lane & 3};
    if (warp == Layout::Format::kBf16Chunk) {
      if constexpr (Layout::kHasBf16Values) attend<kActive, true>(rows, groups);
    } else {
      attend<kActive, false>(rows, groups);
    }
  }

 private:
  __device__ __forceinline__ void sum_up() {
#pragma unroll
    for (int i = 0; i < kHeadsOfWarp; ++i) {
#pragma unroll
      for (int lanes = 16; lanes > 0; lanes /= 2) sums[i].sum += __shfl_xor_sync(~0U, sums[i].sum, lanes);
    }
  }

  template <int kActive, bool kBf16>
  __device__ __forceinline__ void attend(const ValueRows<Layout>& rows, int groups) {
    ShortValues<Layout, kActive, kBf16> values(rows);
#pragma unroll
    for (int i = 0; i < kHeadsOfWarp; ++i) {
      sums[i] = weigh_head<Layout, kActive>(shared, warp + kShortWarps * i, present, lane);
    }
    named_barrier(0, kShortThreads);  // of warps that are in different places
    // Nobody here needs scores any more.
    if constexpr (Layout::kResultsOverScores) cluster_arrive();
    if (values.scales.spread) {
      by = multiply_spread<Layout>(rows, values.scales, groups, results);
      sum_up();
    } else {
      // In one block of code, so that the products hide the shuffles.
      sum_up();
      by = values.multiply(results);
    }
  }
};

// Numbers of groups that there is code for, in a block with room for kMost.
template <int kMost>
using GroupSizes = std::conditional_t<
    kMost == 4, std::integer_sequence<int, 3, 4>,
    std::conditional_t<kMost == 10, std::integer_sequence<int, 5, 6, 8, 10>, std::integer_sequence<int, kMost>>>;

template <typename Layout, int kSize, int... kLarger>
__device__ __forceinline__ void attend(ShortWork<Layout>& work, int groups,
                                       std::integer_sequence<int, kSize, kLarger...>) {
  if constexpr (sizeof...(kLarger) == 0) {
    work.template attend<kSize>(groups);
  } else if (groups <= kSize) {
    work.template attend<kSize>(groups);
  } else {
    attend(work, groups, std::integer_sequence<int, kLarger...>{});
  }
}

template <typename Format, int kHeads, int kGroups>
__global__ void __launch_bounds__(kShortThreads, 1) short_kernel(const __grid_constant__ DecodeArguments a) {
  using Layout = ShortLayout<Format, kHeads, kGroups>;
  using Queries = QueryConverter<Layout>;
  constexpr int kHeadsOfWarp = kHeads / kShortWarps;
  extern __shared__ __align__(128) uint8_t shared[];
  const int warp = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 32, 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int rank = cluster_rank();
  const Place place = place_of<kHeads>(a, cluster_index());
  const int shard = place.part * static_cast<int>(a.splits.divisor) + rank;

  ShortTokens<Layout> tokens(a, place, shard, shared, warp, lane);
  uint4 query[kHeadsOfWarp][Queries::kPerLane];
#pragma unroll
  for (int i = 0; i < kHeadsOfWarp; ++i) {
    Queries::load(a, place, head_of<Format>(a, place, warp + kShortWarps * i), lane, query[i]);
  }
  if (lane == 0) {
    if (warp == 0) {
#pragma unroll
      for (int step = 0; step < Layout::kSteps; ++step) {
        barrier_init(smem_address(shared + Layout::kCopied + 8 * step), kShortWarps);
      }
    }
    if (warp == 1) expect_summaries<Layout>(a, shared);
    if (warp == 2) expect_pieces<Layout>(a, shared, rank);
  }
  __syncwarp();
  __syncthreads();
  if constexpr (!Layout::kResultsOverScores) cluster_arrive_relaxed();
  tokens.start(a, shard);
#pragma unroll
  for (int i = 0; i < kHeadsOfWarp; ++i) Queries::store(a, shared, warp + kShortWarps * i, lane, query[i]);
  float sink[kHeadsOfWarp];
#pragma unroll
  for (int i = 0; i < kHeadsOfWarp; ++i) {
    sink[i] = a.parts.divisor == 1 ? load_sink(a, head_of<Format>(a, place, warp + kShortWarps * i)) : -INFINITY;
  }
  const Sender<Layout> sender(a, shared, rank, warp, lane);
  tokens.store_scales();
  __syncthreads();

  ShortWork<Layout> work{shared, warp, lane, SoftmaxRows<Layout>::present(shared, lane)};
  const int groups = tokens.groups();
  ShortScore<Layout>(shared, warp, lane).run(groups);
  __syncthreads();
  attend(work, groups, GroupSizes<kGroups>{});
  cluster_wait();
#pragma unroll
  for (int i = 0; i < kHeadsOfWarp; ++i) sender.tell(i, work.sums[i]);
  sender.send(work.results, work.by);
  finish_merge<Layout>(a, place, shared, rank, sink, warp, lane);
}

template <int... kSizes>
std::vector<int32_t> tokens_of(std::integer_sequence<int, kSizes...>) {
  return {kGroupTokens * kSizes...};
}

template <typename Format, int kHeads, int kGroups>
Kernel describe_short_kernel(const BlockTime& time) {
  using Layout = ShortLayout<Format, kHeads, kGroups>;
  Kernel kernel = describe<Layout>(&short_kernel<Format, kHeads, kGroups>, kShortThreads, time);
  kernel.time.per_copied = 0.003;
  kernel.time.crowded = 1.2;
  kernel.time.odd = 0.15;
  // One block has a multiprocessor to itself: two on one would be no faster than one after the other.
  constexpr int kMoreThanHalf = 116 * 1024;
  if (kernel.shared_bytes < kMoreThanHalf) kernel.shared_bytes = kMoreThanHalf;
  kernel.sizes = tokens_of(GroupSizes<kGroups>{});
  kernel.splits = kAnySplits & ((2U << Layout::kMostSplits) - 1) & ~(1U << 1);  // merging needs several blocks
  return kernel;
}

template <typename Format>
Kernels describe_short_kernels() {
  if constexpr (Format::kInnerScales >= 0) {
    return {describe_short_kernel<Format, 8, 4>({.start = 3.3, .per_token = 0.02, .merge = 0.1, .per_split = 0.06}),
            describe_short_kernel<Format, 8, 10>({.start = 3.2, .per_token = 0.0284}),
            describe_short_kernel<Format, 16, 10>({.start = 4.5, .per_token = 0.0414})};
  } else {
    return {describe_short_kernel<Format, 8, 4>({.start = 3.3, .per_token = 0.0223, .merge = 0.2}),
            describe_short_kernel<Format, 8, 10>({.start = 5.1, .per_token = 0.0092, .per_split = 0.01}),
            describe_short_kernel<Format, 8, 9>({.start = 5, .per_token = 0.0092, .per_split = 0.01}),
            describe_short_kernel<Format, 8, 12>({.start = 4.3, .per_token = 0.0148}),
            describe_short_kernel<Format, 8, 14>({.start = 4.8, .per_token = 0.014, .merge = 0.2})};
  }
}

}  // namespace flashmla::cuda
