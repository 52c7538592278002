// Dense decode on sm_90a: the kernel and its launch.
#pragma once

#include <string_view>

#include "kernels/cuda/dense_fetch.cuh"
#include "kernels/cuda/dense_finish.cuh"
#include "kernels/cuda/dense_score.cuh"
#include "kernels/cuda/dense_value.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/tensor_map.h"

namespace flashmla::cuda::dense {

__device__ __forceinline__ Work work_of_block(const DecodeArguments& a, int kRows, int rank) {
  Work work{};
  const int cluster = cluster_index();
  work.request = static_cast<int32_t>(quotient(cluster, a.parts));
  work.part = cluster - work.request * static_cast<int32_t>(a.parts.divisor);
  work.first_row = static_cast<int32_t>(blockIdx.y) * kRows;
  work.rows = a.heads_per_row - work.first_row;
  const int64_t most = int64_t{a.main.count} * a.main.pool.page_size.divisor;
  work.count = static_cast<int32_t>(min(static_cast<int64_t>(max(a.main.lengths[work.request], 0)), most));
  const int32_t shard = work.part * static_cast<int32_t>(a.splits.divisor) + rank;
  const int32_t tiles = (work.count + kTileTokens - 1) / kTileTokens;
  const auto each = static_cast<int32_t>(quotient(tiles, a.shards));
  const int32_t longer = tiles - each * static_cast<int32_t>(a.shards.divisor);  // so many have a tile more
  work.first_tile = shard * each + min(shard, longer);
  work.tiles = each + (shard < longer ? 1 : 0);
  return work;
}

template <int kRows, int kChunks>
__global__ void __launch_bounds__(Layout<kRows, kChunks>::kThreads, 1)
    decode_kernel(const __grid_constant__ DecodeArguments a, const __grid_constant__ Pages pages) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Layout = dense::Layout<kRows, kChunks>;
  extern __shared__ __align__(1024) uint8_t shared[];
  const int group = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / kWarpgroup, 0);
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroup;
  const int rank = cluster_rank();
  const Work work = work_of_block(a, kRows, rank);
  if (group > Layout::kValueGroups) {
    if constexpr (Layout::kMovesRegisters) release_registers<Layout::kCopierRegisters>();
    if (thread >= 32) return;
    if (thread == 0) {
      prefetch_tensor_map(&pages.map);
      Copier<kRows, kChunks>::init_barriers(smem_address(shared));
    }
    __syncwarp();
    named_barrier_arrive(kReadyBarrier, Layout::kWorkers + 32);
    Copier<kRows, kChunks>(a, pages, work, smem_address(shared), thread).run();
    return;  // the barriers below do not wait for threads that are gone
  }
  if constexpr (Layout::kMovesRegisters) take_registers<Layout::kWorkerRegisters>();
  load_queries<kRows, kChunks>(a, work, shared, static_cast<int>(threadIdx.x));
  named_barrier(kReadyBarrier, Layout::kWorkers + 32);
  if (group == 0) {
    Scorer<kRows, kChunks>(a, work, shared, thread).run();
  } else {
    Adder<kRows, kChunks>(work, shared, group - 1, thread).run();
  }
  __syncwarp();
  if (a.splits.divisor == 1) {
    named_barrier(kReadyBarrier, Layout::kWorkers);
    finish<kRows, kChunks>(a, work, shared, rank);
    return;
  }
  cluster_arrive();
  cluster_wait();
  finish<kRows, kChunks>(a, work, shared, rank);
  // Others may still be reading here.
  __syncwarp();
  cluster_arrive();
  cluster_wait();
#endif
}

template <int kRows, int kChunks>
cudaError_t launch(const DecodeArguments& arguments, const Grid& grid, cudaStream_t stream) {
  Pages pages{};
  const cudaError_t error = make_page_map(arguments.main.pool, kChunks * kChunkDims, pages.map, pages.box_tokens);
  if (error != cudaSuccess) return error;
  cudaLaunchConfig_t config{};
  config.gridDim =
      dim3(static_cast<unsigned>(grid.rows * grid.parts * grid.splits), static_cast<unsigned>(grid.head_blocks), 1);
  config.blockDim = dim3(Layout<kRows, kChunks>::kThreads, 1, 1);
  config.dynamicSmemBytes = Layout<kRows, kChunks>::kBytes;
  config.stream = stream;
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = static_cast<unsigned>(grid.splits);
  cluster.val.clusterDim.y = 1;
  cluster.val.clusterDim.z = 1;
  config.attrs = &cluster;
  config.numAttrs = grid.splits > 1 ? 1 : 0;
  return cudaLaunchKernelEx(&config, decode_kernel<kRows, kChunks>, arguments, pages);
}

template <int kRows, int kChunks>
Kernel describe() {
  using Layout = dense::Layout<kRows, kChunks>;
  Kernel kernel{};
  kernel.heads = kRows;
  kernel.tile_tokens = kTileTokens;
  kernel.splits = (2U << kMaxSplits) - 2;
  kernel.shared_bytes = Layout::kBytes;
  kernel.threads = Layout::kThreads;
  kernel.function = reinterpret_cast<const void*>(&decode_kernel<kRows, kChunks>);
  kernel.launch = &launch<kRows, kChunks>;
  return kernel;
}

template <int kChunks>
Kernels describe_all() {
  if (std::string_view(FLASHMLA_ARCH_NAME) != "sm_90a") return {};
  return {describe<16, kChunks>(), describe<32, kChunks>(), describe<64, kChunks>()};
}

}  // namespace flashmla::cuda::dense
