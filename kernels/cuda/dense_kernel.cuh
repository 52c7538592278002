// Dense decode on sm_90a: the kernel and its launch.
#pragma once

#include <algorithm>
#include <limits>
#include <string_view>

#include "kernels/cuda/dense_fetch.cuh"
#include "kernels/cuda/dense_finish.cuh"
#include "kernels/cuda/dense_plan.h"
#include "kernels/cuda/dense_score.cuh"
#include "kernels/cuda/dense_score64.cuh"
#include "kernels/cuda/dense_value.cuh"
#include "kernels/cuda/dense_value64.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/tensor_map.h"

namespace flashmla::cuda::dense {

// Where the block works; nothing here waits for the number of tokens.
__device__ __forceinline__ Task place_of_block(const Pages& pages, int rows) {
  Task task{};
  // Blocks of the same tokens are neighbours, so that they meet in the L2 cache.
  const int index = cluster_index();
  const auto cluster = static_cast<int32_t>(quotient(index, pages.row_blocks));
  task.request = static_cast<int32_t>(quotient(cluster, pages.parts));
  task.count = __ldg(pages.lengths + task.request);
  task.part = cluster - task.request * static_cast<int32_t>(pages.parts.divisor);
  task.all_parts = static_cast<int32_t>(gridDim.x / (pages.splits.divisor * pages.row_blocks.divisor));
  task.first_row = (index - cluster * static_cast<int32_t>(pages.row_blocks.divisor)) * rows;
  task.rows = min(pages.heads_per_row - task.first_row, rows);
  return task;
}

// Page numbers, which the number of tokens will ask for; a warp.
__device__ __forceinline__ void load_pages_ahead(const Pages& pages, const Task& task, int lane) {
  constexpr int kPagesOfLine = 32;
  if (kPagesOfLine * lane < pages.table_pages) {
    load_ahead(pages.table + task.request * pages.table_stride + kPagesOfLine * lane);
  }
}

__device__ __forceinline__ void divide_tiles(const Pages& pages, int rank, Task& task) {
  task.count = min(max(task.count, 0), pages.most_tokens);
  const int32_t shard = task.part * static_cast<int32_t>(pages.splits.divisor) + rank;
  const int32_t tiles = (task.count + kTileTokens - 1) / kTileTokens;
  const auto each = static_cast<int32_t>(quotient(tiles, pages.shards));
  const int32_t longer = tiles - each * static_cast<int32_t>(pages.shards.divisor);  // so many have a tile more
  task.first_tile = shard * each + min(shard, longer);
  task.tiles = each + (shard < longer ? 1 : 0);
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
  if (threadIdx.x == Layout::kWorkers) prefetch_tensor_map(&pages.map);
  if (threadIdx.x / 32 == kWarpgroup / 32) {  // a warp that has time: the first of those that add up
    init_barriers<Layout>(smem_address(shared), thread);
    named_barrier_arrive(kBarriersBarrier, 64);
  }
  Task task = place_of_block(pages, kRows);
  if (group > Layout::kValueGroups) {
    if constexpr (Layout::kMovesRegisters) release_registers<Layout::kCopierRegisters>();
    if (thread >= 32) return;
    load_pages_ahead(pages, task, thread);
    divide_tiles(pages, rank, task);
    Copier<kRows, kChunks> copier(pages, task, smem_address(shared), thread);
    named_barrier(kBarriersBarrier, 64);
    copier.run();
    return;  // the barriers below do not wait for threads that are gone
  }
  const QueryLoader<kRows, kChunks> queries(a, pages, task, static_cast<int>(threadIdx.x));
  divide_tiles(pages, rank, task);
  queries.store(a, pages, task, shared);
  named_barrier(kReadyBarrier, Layout::kWorkers);
  if (group == 0) {
    if constexpr (Layout::kMovesRegisters) take_registers<Layout::kScorerRegisters>();
    if constexpr (kRows == 64) {
      Scorer64<kChunks>(a, task, shared, thread).run();
    } else {
      Scorer<kRows, kChunks>(a, task, shared, thread).run();
    }
  } else {
    if constexpr (Layout::kMovesRegisters) take_registers<Layout::kAdderRegisters>();
    if constexpr (kRows == 64) {
      Adder64<kChunks>(task, shared, group - 1, thread).run();
    } else {
      Adder<kRows, kChunks>(task, shared, thread).run();
    }
  }
  __syncwarp();
  if (a.splits.divisor == 1) {
    named_barrier(kReadyBarrier, Layout::kWorkers);
    finish_alone<kRows, kChunks>(a, pages, task, shared);
    return;
  }
  cluster_arrive();
  cluster_wait();
  finish<kRows, kChunks>(a, pages, task, shared, rank);
  // Others may still be reading here.
  __syncwarp();
  cluster_arrive();
  cluster_wait();
#endif
}

template <int kRows, int kChunks>
cudaError_t launch(const Kernel& kernel, const DecodeArguments& arguments, const Grid& grid, cudaStream_t stream) {
  const Selection& main = arguments.main;
  Pages pages{};
  pages.lengths = main.lengths;
  pages.table = main.indices;
  pages.table_stride = main.batch_stride;
  pages.count = main.pool.num_slots / main.pool.page_size.divisor;
  pages.most_tokens = static_cast<int32_t>(std::min<int64_t>(int64_t{main.count} * main.pool.page_size.divisor,
                                                             std::numeric_limits<int32_t>::max() - kTileTokens));
  pages.box_tokens = box_tokens(main.pool);
  pages.table_pages = main.count;
  pages.heads_per_row = arguments.heads_per_row;
  pages.page_size = main.pool.page_size;
  pages.heads = Divisor::of(arguments.num_heads);
  pages.row_blocks = Divisor::of(grid.head_blocks);
  pages.splits = arguments.splits;
  pages.parts = arguments.parts;
  pages.shards = arguments.shards;
  pages.box_chunks = pages.box_tokens == kTileTokens ? Layout<kRows, kChunks>::kSlotChunks : 1;
  const cudaError_t error = make_page_map(main.pool, kChunks, pages.box_chunks, pages.box_tokens, pages.map);
  if (error != cudaSuccess) return error;
  const dim3 blocks(static_cast<unsigned>(grid.rows * grid.parts * grid.head_blocks * grid.splits), 1, 1);
  ClusterLaunch clusters(kernel, blocks, grid.splits, stream);
  return cudaLaunchKernelEx(&clusters.without_clusters_of_one().config(), decode_kernel<kRows, kChunks>, arguments,
                            pages);
}

template <int kRows, int kChunks>
Kernel describe() {
  using Layout = dense::Layout<kRows, kChunks>;
  Kernel kernel{};
  kernel.heads = kRows;
  kernel.splits = kAnySplits;
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
