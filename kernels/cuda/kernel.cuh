// The kernel and its launch, for one format and one number of heads per block.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/finish.cuh"
#include "kernels/cuda/launch.h"

namespace flashmla::cuda {

// Two blocks of 8 heads with short tiles fit on an SM of sm_90a; V32's need more registers than that leaves, and so do
// other architectures' so far.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ != 900
constexpr int kMostBlocksPerSm = 1;
#else
constexpr int kMostBlocksPerSm = 2;
#endif
template <typename Format, int kHeads, int kGroups>
constexpr int kBlocksPerSm =
    kHeads == 8 && kGroups == 4 && !kDense<Format> && Format::kInnerScales < 0 ? kMostBlocksPerSm : 1;

// What cluster `cluster` of the grid works on.
template <int kHeads>
__device__ __forceinline__ Place place_of(const DecodeArguments& a, int cluster) {
  const auto row = static_cast<int32_t>(quotient(cluster, a.parts));
  const int part = cluster - row * static_cast<int32_t>(a.parts.divisor);
  const auto b = static_cast<int32_t>(quotient(row, a.rows_per_request));
  return {b, row - b * static_cast<int32_t>(a.rows_per_request.divisor), static_cast<int32_t>(blockIdx.y) * kHeads, row,
          part};
}

template <typename Format, int kHeads, int kGroups>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm<Format, kHeads, kGroups>)
    decode_kernel(const __grid_constant__ DecodeArguments a) {
  using Layout = SharedLayout<Format, kHeads, kGroups>;
  extern __shared__ __align__(128) uint8_t shared[];
  const int warp = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 32, 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int rank = cluster_rank();
  const Place place = place_of<kHeads>(a, cluster_index());
  const TokenRange range = token_range<Format>(a, place.b, place.part * static_cast<int32_t>(a.splits.divisor) + rank);
  const bool merges = a.splits.divisor > 1;

  Worker<Format, kHeads, kGroups> worker(a, place, range, shared, warp, lane);
  QueryLoader<Layout> queries(a, place, shared, warp, lane);
  queries.start();
  float sink = -INFINITY;
  if (threadIdx.x < kHeads && a.parts.divisor == 1) {
    sink = load_sink(a, head_of<Format>(a, place, static_cast<int>(threadIdx.x)));
  }
  if (merges) {
    if (threadIdx.x == 0) expect_results<Layout>(a, shared, rank);
    __syncwarp();
    cluster_arrive_relaxed();
  }
  worker.start();
  queries.finish();
  store_sinks<Layout>(sink, shared);
  __syncthreads();
  worker.run();
  if (!merges) {
    finish_alone(a, place, shared, worker);
    return;
  }
  cluster_wait();
  // Where a block has one tile the others' results go to the place of a second one; else all must be done first.
  if (!results_have_a_place<Layout>(a, range)) {
    cluster_arrive();
    cluster_wait();
  }
  send_results(a, range, shared, worker, rank);
  merge_results<Layout>(a, place, range, shared, rank);
}

inline cudaError_t launch_kernel(const Kernel& kernel, const DecodeArguments& arguments, const Grid& grid,
                                 cudaStream_t stream) {
  // What cannot be stored in pieces of 16 bytes goes through memory that a next row would need.
  const int32_t clusters = arguments.out_aligned ? grid.clusters : grid.rows * grid.parts;
  const dim3 blocks(static_cast<unsigned>(clusters * grid.splits), static_cast<unsigned>(grid.head_blocks), 1);
  ClusterLaunch launch(kernel, blocks, grid.splits, stream);
  void* pointers[] = {const_cast<DecodeArguments*>(&arguments)};
  return cudaLaunchKernelExC(&launch.without_clusters_of_one().config(), kernel.function, pointers);
}

template <typename Layout>
Kernel describe(void (*function)(DecodeArguments), int threads, const BlockTime& time) {
  Kernel kernel{};
  kernel.heads = Layout::kHeads;
  kernel.step_tokens = Layout::kGroups * kGroupTokens;
  kernel.time = time;
  kernel.shared_bytes = Layout::kBytes;
  kernel.threads = threads;
  kernel.function = reinterpret_cast<const void*>(function);
  kernel.launch = &launch_kernel;
  return kernel;
}

template <typename Format, int kHeads, int kGroups>
constexpr BlockTime block_time() {
  constexpr bool kInner = Format::kInnerScales >= 0;
  if (kHeads == 32) {
    if (kInner) return {.start = 5.3, .per_token = 0.0563, .merge = 5.8, .per_split = 0.01};
    return {.start = 4.3, .per_token = 0.0581, .merge = 5, .per_split = 0.06};
  }
  if (kGroups == 8 && kHeads == 16) {
    if (kInner) return {.start = 3.3, .per_token = 0.034, .merge = 3.8};
    return {.start = 3.7, .per_token = 0.0354, .merge = 2.4};
  }
  if (kGroups == 8) {
    if (kInner) return {.start = 3.2, .per_token = 0.0303, .merge = 1.8};
    return {.start = 3.3, .per_token = 0.0309, .merge = 1.5};
  }
  if (kHeads == 16) return {.start = 3.5, .per_token = kInner ? 0.045 : 0.0428, .merge = kInner ? 4 : 3.5};
  if (kInner) return {.start = 3.9, .per_token = 0.0411, .merge = 0.74, .per_split = 0.04};
  return {.start = 4.2, .per_token = 0.0391, .per_token_shared = 0.051, .merge = 0.96, .per_split = 0.115};
}

template <typename Format, int kHeads, int kGroups>
Kernel describe_kernel() {
  using Layout = SharedLayout<Format, kHeads, kGroups>;
  Kernel kernel =
      describe<Layout>(&decode_kernel<Format, kHeads, kGroups>, kThreads, block_time<Format, kHeads, kGroups>());
  for (int splits = 1; splits <= kMaxSplits; ++splits) {
    const int units = (kUnits + splits - 1) / splits;
    if (splits * (units * kUnitBytes<kHeads> + kHeads * 16) <= Layout::kExchangeBytes) kernel.splits |= 1U << splits;
  }
  return kernel;
}

}  // namespace flashmla::cuda
