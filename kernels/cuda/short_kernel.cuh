// The kernel for few rows: a block has one tile of tokens, and what limits it is the way from an index to the merged
// result. So there is no loop over tiles, and nothing waits for more than it needs.
//
//   tokens   a bulk copy each; lengths and indices are asked for together
//   QK^T     the first tokens while others are on their way
//   softmax  a warp has all tokens of a head; meanwhile values are read and converted
//   PV       a warp has a chunk of all tokens, or half of one; results go to the other blocks of the cluster at once
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
  uint8_t* shared;
  const Sender<Layout>& sender;
  int warp, lane;
  uint32_t present;
  ShortResults<Layout> results = {};
  float by;  // of the results

  // Softmax and value product of kActive groups. Behind it all blocks of the cluster have been told the sums, and take
  // results.
  template <int kActive>
  __device__ __forceinline__ void attend(int groups) {
    const ValueRows<Layout> rows = {shared, Layout::chunk_of_warp(warp), Layout::half_of_warp(warp), lane >> 2,
                                    lane & 3};
    if (rows.chunk == Layout::Format::kBf16Chunk) {
      if constexpr (Layout::kHasBf16Values) attend<kActive, true>(rows, groups);
    } else {
      attend<kActive, false>(rows, groups);
    }
  }

 private:
  template <int kActive, bool kBf16>
  __device__ __forceinline__ void attend(const ValueRows<Layout>& rows, int groups) {
    ShortValues<Layout, kActive, kBf16> values(rows, lane);
    HeadSums sums = {kNoMaximum, 0};
    if (has_head<Layout>(warp)) sums = weigh_head<Layout, kActive>(shared, warp, present, lane);
    named_barrier(0, Layout::kBlockThreads);  // of warps that are in different places
    if (values.scales.spread) {
      tell(sums);
      by = multiply_spread<Layout>(rows, values.scales, groups, results);
    } else {
      // The first products hide the shuffles, the others the way to the other blocks.
      constexpr int kFirst = (kActive + 1) / 2;
      values.template multiply<0, kFirst>(results);
      tell(sums);
      values.template multiply<kFirst, kActive>(results);
      by = values.by();
    }
  }

  // `sums`: a lane's part.
  __device__ __forceinline__ void tell(HeadSums sums) const {
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) sums.sum += __shfl_xor_sync(~0U, sums.sum, lanes);
    cluster_wait();
    sender.tell(0, sums);
  }
};

// Numbers of groups that there is code for, in a block with room for kMost.
template <int kMost>
struct GroupSizes;
template <>
struct GroupSizes<4> : std::integer_sequence<int, 3, 4> {};
template <>
struct GroupSizes<10> : std::integer_sequence<int, 5, 6, 8, 10> {};
template <>
struct GroupSizes<12> : std::integer_sequence<int, 9, 12> {};
template <>
struct GroupSizes<14> : std::integer_sequence<int, 12, 14> {};
template <>
struct GroupSizes<16> : std::integer_sequence<int, 12, 16> {};

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
__global__ void __launch_bounds__(ShortLayout<Format, kHeads, kGroups>::kBlockThreads, 1)
    short_kernel(const __grid_constant__ DecodeArguments a) {
  using Layout = ShortLayout<Format, kHeads, kGroups>;
  using Queries = QueryConverter<Layout>;
  extern __shared__ __align__(128) uint8_t shared[];
  const int warp = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 32, 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int rank = cluster_rank();
  const Place place = place_of<kHeads>(a, cluster_index());
  const int shard = place.part * static_cast<int>(a.splits.divisor) + rank;

  ShortTokens<Layout> tokens(shared, warp, lane);
  if (Layout::brings_tokens(warp)) tokens.ask(a, place, shard);
  constexpr int kQueries = kHeads / Layout::kQueryWarps;  // of a warp
  uint4 query[kQueries][Queries::kPerLane];
  if (Layout::converts_queries(warp)) {
#pragma unroll
    for (int i = 0; i < kQueries; ++i) {
      const int h = warp - Layout::kFirstQueryWarp + Layout::kQueryWarps * i;
      Queries::load(a, place, head_of<Format>(a, place, h), lane, query[i]);
    }
  }
  if (lane == 0) {
    if (warp == Layout::kFirstQueryWarp) {
#pragma unroll
      for (int step = 0; step < Layout::kSteps; ++step) {
        barrier_init(smem_address(shared + Layout::kCopied + 8 * step), Layout::kCopyWarps);
      }
    }
    if (warp == Layout::kFirstQueryWarp + 1) expect_summaries<Layout>(a, shared);
    if (warp == Layout::kFirstQueryWarp + 2) expect_pieces<Layout>(a, shared, rank);
  }
  __syncwarp();
  __syncthreads();
  if constexpr (!Layout::kResultsOverQuery) cluster_arrive_relaxed();
  if (Layout::brings_tokens(warp)) tokens.start(a, shard);
  if (Layout::converts_queries(warp)) {
#pragma unroll
    for (int i = 0; i < kQueries; ++i) {
      Queries::store(a, shared, warp - Layout::kFirstQueryWarp + Layout::kQueryWarps * i, lane, query[i]);
    }
  }
  const float sink[1] = {a.parts.divisor == 1 && has_head<Layout>(warp) ? load_sink(a, head_of<Format>(a, place, warp))
                                                                        : -INFINITY};
  const Sender<Layout> sender(a, shared, rank, warp, lane);
  if (Layout::brings_tokens(warp)) tokens.store_scales();
  __syncthreads();
  if (Layout::brings_tokens(warp)) tokens.finish();

  ShortWork<Layout> work{shared, sender, warp, lane, SoftmaxRows<Layout>::present(shared, lane)};
  const int groups = Layout::kFirstQueryWarp == 0 ? tokens.groups() : read<int>(shared + Layout::kTokenGroups);
  ShortScore<Layout>(shared, warp, lane).run(groups);
  __syncthreads();
  // What was read there has been used: it needs no order.
  if constexpr (Layout::kResultsOverQuery) cluster_arrive_relaxed();
  attend(work, groups, GroupSizes<kGroups>{});
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
  Kernel kernel = describe<Layout>(&short_kernel<Format, kHeads, kGroups>, Layout::kBlockThreads, time);
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
            describe_short_kernel<Format, 8, 10>({.start = 4.9, .per_token = 0.0155}),
            describe_short_kernel<Format, 8, 16>({.start = 5, .per_token = 0.0155}),
            describe_short_kernel<Format, 16, 10>({.start = 5.5, .per_token = 0.0205})};
  } else {
    return {describe_short_kernel<Format, 8, 4>({.start = 3.05, .per_token = 0.0222, .merge = 0.32}),
            describe_short_kernel<Format, 8, 10>({.start = 4.6, .per_token = 0.0105, .per_split = 0.01}),
            describe_short_kernel<Format, 8, 14>({.start = 4.6, .per_token = 0.0125}),
            describe_short_kernel<Format, 16, 12>({.start = 6, .per_token = 0.013})};
  }
}

}  // namespace flashmla::cuda
