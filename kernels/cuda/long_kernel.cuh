// The kernel for many tokens and up to 16 heads, and its launch.
#pragma once

#include <string_view>

#include "kernels/cuda/long_copy.cuh"
#include "kernels/cuda/long_finish.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace flashmla::cuda {

// Of warps that are in different places.
template <typename Layout>
__device__ __forceinline__ void sync_block() {
  named_barrier(0, Layout::kBlockThreads);
}

template <typename Layout>
__device__ __forceinline__ void work_on_rows(const DecodeArguments& a, uint8_t* shared, int warp, int lane) {
  // Not kept in registers while there are tokens.
  const auto stored = [&](int place) { return *reinterpret_cast<const volatile int*>(shared + place); };
  int cluster = cluster_index();
  int tile = 0;  // of all that the block works on
  start_queries<Layout>(a, place_of<Layout::kHeads>(a, cluster), shared, warp, lane);
  store_sinks<Layout>(sink_of<Layout>(a, place_of<Layout::kHeads>(a, cluster)), shared);  // the same for all rows
  sync_block<Layout>();
  LongWorker<Layout> worker(shared, warp, lane);
  while (true) {
    const int groups = groups_of(work_of<Layout>(a, cluster).range);
    const int tiles = (groups + Layout::kGroups - 1) / Layout::kGroups;
    if (threadIdx.x == 0) write(shared + Layout::kCluster, int2{cluster, tile + tiles});
    finish_queries<Layout>(a, shared, warp, lane);
    worker.reset();
    sync_teams<Layout>();
    const auto scored = [&] {
      const int next = stored(Layout::kCluster) + launched_clusters(a);
      if (next >= all_clusters(a)) return;
      start_queries<Layout>(a, place_of<Layout::kHeads>(a, next), shared, warp, lane);
    };
    worker.run(static_cast<uint32_t>(tile), groups, scored);
    cluster = stored(Layout::kCluster), tile = stored(Layout::kNextTile);
    const Place place = place_of<Layout::kHeads>(a, cluster);
    if (Layout::kMerges && a.splits.divisor > 1) {
      if constexpr (Layout::kMerges) merge_row<Layout>(a, place, shared, worker, warp, lane);
    } else {
      finish_row<Layout>(a, place, shared, worker, warp, lane, scored);
    }
    cluster += launched_clusters(a);
    if (cluster >= all_clusters(a)) return;
  }
}

template <typename Layout>
__global__ void __launch_bounds__(Layout::kBlockThreads, Layout::kBlocksPerSm)
    long_kernel(const __grid_constant__ DecodeArguments a) {
  extern __shared__ __align__(128) uint8_t shared[];
  const int warp = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 32, 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (warp < Layout::kWorkWarps) {
    if constexpr (Layout::kMovesRegisters) take_registers<Layout::kWorkRegisters>();
    work_on_rows<Layout>(a, shared, warp, lane);
    return;
  }
  if constexpr (Layout::kMovesRegisters) release_registers<Layout::kCopyRegisters>();
  if (warp == Layout::kWorkWarps && lane == 0) init_stages<Layout>(shared);
  if (warp == Layout::kWorkWarps + 1 && lane == 0 && Layout::kMerges && a.splits.divisor > 1) {
    expect_summaries<Layout>(a, shared);
    expect_pieces<Layout>(a, shared, cluster_rank());
  }
  TileCopier<Layout> copier(a, warp - Layout::kWorkWarps, lane);
  sync_block<Layout>();
  copier.run(a.main.pool.base, shared);
}

template <typename Format, int kHeads, int kTeams>
Kernel describe_long_kernel(const BlockTime& time) {
  using Layout = LongLayout<Format, kHeads, kTeams>;
  Kernel kernel = describe<Layout>(&long_kernel<Layout>, Layout::kBlockThreads, time);
  kernel.splits = Layout::kMerges ? kAnySplits : 1U << 1;
  kernel.takes_turns = true;
  return kernel;
}

template <typename Format>
Kernels describe_long_kernels() {
  constexpr bool kInner = Format::kInnerScales >= 0;
  Kernels kernels;
  // On other architectures they would need more registers than there are.
  if constexpr (std::string_view(FLASHMLA_ARCH_NAME) == "sm_90a") {
    kernels = {describe_long_kernel<Format, 8, 2>({.start = kInner ? 6.4 : 6.9,
                                                   .per_token = kInner ? 0.0205 : 0.0209,
                                                   .merge = kInner ? 0.84 : 0.6,
                                                   .again = kInner ? 0.6 : 2.3}),
               describe_long_kernel<Format, 8, 1>({.start = kInner ? 6.2 : 7.4,
                                                   .per_token = kInner ? 0.028 : 0.0269,
                                                   .per_token_shared = kInner ? 0.042 : 0.0387,
                                                   .merge = kInner ? 4 : 1.8,
                                                   .per_split = kInner ? 0.3 : 0.1,
                                                   .again = kInner ? 0.2 : 4.8})};
    // V32's would need more registers than there are.
    if constexpr (!kInner) {
      kernels.push_back(
          describe_long_kernel<Format, 16, 2>({.start = 7.6, .per_token = 0.025, .merge = 2.4, .again = 1.4}));
      kernels.push_back(describe_long_kernel<Format, 16, 1>(
          {.start = 9.3, .per_token = 0.0306, .per_token_shared = 0.0497, .again = 2.7}));
    }
  }
  return kernels;
}

}  // namespace flashmla::cuda
