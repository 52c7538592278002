// The warpgroup kernel and its launch (sm_90a), for one format and one number of heads per block.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "kernels/cuda/warpgroup.cuh"

namespace flashmla::cuda {

template <typename Layout>
__device__ __forceinline__ void compute_rows(const DecodeArguments& a, uint8_t* shared) {
  int cluster = cluster_index();
  const Place first = place_of<Layout::kHeads>(a, cluster);
  start_queries<Layout>(a, first, shared, static_cast<int>(threadIdx.x) / 32, static_cast<int>(threadIdx.x) % 32);
  store_sinks<Layout>(sink_of<Layout>(a, first), shared);  // all rows of a block have the same heads
  if (threadIdx.x == 0) write(shared + Layout::kTileWords + 12, 0);
  while (true) {
    WarpgroupWorker<Layout> worker(shared);
    const int warp = worker.warp(), lane = worker.lane();
    if (threadIdx.x == 0) {
      const RowWork work = work_of<Layout>(a, cluster);
      const auto first_group = read<int>(shared + Layout::kTileWords + 12);
      write(shared + Layout::kPlace, work.place);
      write(shared + Layout::kCluster, cluster);
      write(shared + Layout::kTileWords, int4{static_cast<int>(b_descriptor(smem_address(shared + Layout::kQuery))),
                                              static_cast<int>(b_descriptor(smem_address(shared + Layout::kWeights))),
                                              first_group, first_group + groups_of(work.range)});
    }
    finish_queries<Layout>(a, shared, warp, lane);
    worker.reset();
    fence_async_proxy();
    sync_work_warps<Layout>();
    worker.run();
    cluster = *reinterpret_cast<const volatile int*>(shared + Layout::kCluster) + launched_clusters(a);
    const bool last = cluster >= all_clusters(a);
    worker.finish(a, [&] {
      if (!last) {
        start_queries<Layout>(a, place_of<Layout::kHeads>(a, cluster), shared, worker.warp(), worker.lane());
      }
    });
    if (last) return;
  }
}

template <typename Layout>
__global__ void __launch_bounds__(Layout::kThreads, 1) warpgroup_kernel(const __grid_constant__ DecodeArguments a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(1024) uint8_t shared[];
  const int warp = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 32, 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (warp == Layout::kWorkWarps) init_slots<Layout>(shared, lane);
  __syncthreads();
  if (warp >= Layout::kWorkWarps) {
    release_registers<Layout::kCopyRegisters>();
    copy_groups<Layout>(a, shared, warp - Layout::kWorkWarps, lane);
    return;
  }
  take_registers<Layout::kWorkRegisters>();
  compute_rows<Layout>(a, shared);
  if (stores_directly(a)) return;
  cluster_arrive();
  cluster_wait();
  merge_results<Layout>(a, shared, warp, lane);
  // Others may still read this block's results.
  cluster_arrive();
  cluster_wait();
#endif
}

template <typename Format, int kHeads>
Kernel describe_warpgroup_kernel(const BlockTime& time) {
  using Layout = WarpgroupLayout<Format, kHeads>;
  static_assert(Layout::ring().is_sound());
  Kernel kernel = describe<Layout>(&warpgroup_kernel<Layout>, Layout::kThreads, time);
  kernel.splits = kAnySplits;
  kernel.takes_turns = true;
  return kernel;
}

template <typename Format>
Kernels describe_warpgroup_kernels() {
  if (std::string_view(FLASHMLA_ARCH_NAME) != "sm_90a") return {};
  constexpr bool kInner = Format::kInnerScales >= 0;
  Kernels kernels = {describe_warpgroup_kernel<Format, 32>({.start = kInner ? 7.5 : 7.1,
                                                            .per_token = kInner ? 0.0376 : 0.0405,
                                                            .merge = kInner ? 6.1 : 5.3,
                                                            .again = 1.3}),
                     describe_warpgroup_kernel<Format, 64>({.start = kInner ? 14.5 : 12.9,
                                                            .per_token = kInner ? 0.0515 : 0.0509,
                                                            .merge = kInner ? 4.9 : 4.5,
                                                            .again = 7.7})};
  // V4 has others (long_kernel.cuh).
  if constexpr (kInner) {
    kernels.push_back(
        describe_warpgroup_kernel<Format, 16>({.start = 6.8, .per_token = 0.0274, .merge = 3.9, .again = 0.3}));
  }
  return kernels;
}

}  // namespace flashmla::cuda
