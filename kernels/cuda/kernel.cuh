// The kernel and its launch, for one format and one number of heads per block.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/finish.cuh"
#include "kernels/cuda/launch.h"

namespace flashmla::cuda {

template <typename Format, int kHeads>
__global__ void __launch_bounds__(kThreads, kHeads <= 16 && !kDense<Format> ? 2 : 1)
    decode_kernel(const __grid_constant__ DecodeArguments a) {
  using Layout = SharedLayout<Format, kHeads>;
  extern __shared__ __align__(128) uint8_t shared[];
  const int warp = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 32, 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int rank = cluster_rank();
  const int row = cluster_index();
  const auto b = static_cast<int32_t>(quotient(row, a.rows_per_request));
  const Place place = {b, row - b * static_cast<int32_t>(a.rows_per_request.divisor),
                       static_cast<int32_t>(blockIdx.y) * kHeads};
  const TokenRange range = token_range<Format>(a, place.b, rank);
  const bool merges = a.splits.divisor > 1;

  QueryLoader<Format, kHeads> queries(a, place, shared, warp, lane);
  queries.start();
  Worker<Format, kHeads> worker(a, place, range, shared, warp, lane);
  if (merges) {
    if (threadIdx.x == 0) expect_results<Format, kHeads>(a, shared, rank);
    __syncwarp();
    cluster_arrive();
  }
  worker.start();
  queries.finish();
  __syncthreads();
  worker.run();
  if (!merges) {
    finish_alone(a, place, shared, worker, lane);
    return;
  }
  cluster_wait();
  // Where a block has one tile the others' results go to the place of a second one; else all must be done first.
  if (!results_have_a_place<Format, kHeads>(a, range)) {
    cluster_arrive();
    cluster_wait();
  }
  send_results(a, range, shared, worker, rank, lane);
  merge_results<Format, kHeads>(a, place, range, shared, rank);
}

template <typename Format, int kHeads>
cudaError_t launch_decode(const DecodeArguments& arguments, const Grid& grid, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(grid.rows * grid.splits), static_cast<unsigned>(grid.head_blocks), 1);
  config.blockDim = dim3(kThreads, 1, 1);
  config.dynamicSmemBytes = SharedLayout<Format, kHeads>::kBytes;
  config.stream = stream;
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = static_cast<unsigned>(grid.splits);
  cluster.val.clusterDim.y = 1;
  cluster.val.clusterDim.z = 1;
  config.attrs = &cluster;
  config.numAttrs = grid.splits > 1 ? 1 : 0;
  return cudaLaunchKernelEx(&config, decode_kernel<Format, kHeads>, arguments);
}

// Raises the kernel's limits of shared memory and cluster size, once per device.
template <typename Format, int kHeads>
cudaError_t prepare_decode() {
  const auto* kernel = reinterpret_cast<const void*>(&decode_kernel<Format, kHeads>);
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SharedLayout<Format, kHeads>::kBytes);
  if (error != cudaSuccess) return error;
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
}

// One definition of the three sizes that a format is built for.
#define FLASHMLA_KERNELS_OF(Format)                                  \
  extern const Kernels kernels_##Format = {{                         \
      {8, &launch_decode<Format, 8>, &prepare_decode<Format, 8>},    \
      {16, &launch_decode<Format, 16>, &prepare_decode<Format, 16>}, \
      {64, &launch_decode<Format, 64>, &prepare_decode<Format, 64>}, \
  }};

}  // namespace flashmla::cuda
