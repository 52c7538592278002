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
template <int kRows, int kSlices>
__device__ __forceinline__ Task place_of_block(const Call& call) {
  Task task{};
  // Blocks of the same tokens are neighbours, so that they meet in the L2 cache.
  const int index = cluster_index() / kSlices;
  const auto cluster = static_cast<int32_t>(quotient(index, call.row_blocks));
  task.request = static_cast<int32_t>(quotient(cluster, call.parts));
  task.count = __ldg(call.lengths + task.request);
  task.first_chunk = cluster_index() % kSlices * (kValueChunks / kSlices);
  task.part = cluster - task.request * static_cast<int32_t>(call.parts.divisor);
  task.all_parts = static_cast<int32_t>(gridDim.x / (call.splits.divisor * call.row_blocks.divisor * kSlices));
  task.first_row = (index - cluster * static_cast<int32_t>(call.row_blocks.divisor)) * kRows;
  task.rows = min(call.heads_per_row - task.first_row, kRows);
  return task;
}

// Page numbers, which the number of tokens will ask for; a warp.
__device__ __forceinline__ void load_pages_ahead(const Call& call, const Task& task, int lane) {
  constexpr int kPagesOfLine = 32;
  if (kPagesOfLine * lane < call.table_pages) {
    load_ahead(call.table + task.request * call.table_stride + kPagesOfLine * lane);
  }
}

__device__ __forceinline__ void divide_tiles(const Call& call, int rank, Task& task) {
  task.count = min(max(task.count, 0), call.most_tokens);
  const int32_t shard = task.part * static_cast<int32_t>(call.splits.divisor) + rank;
  const int32_t tiles = (task.count + kTileTokens - 1) / kTileTokens;
  const auto each = static_cast<int32_t>(quotient(tiles, call.shards));
  const int32_t longer = tiles - each * static_cast<int32_t>(call.shards.divisor);  // so many have a tile more
  task.first_tile = shard * each + min(shard, longer);
  task.tiles = each + (shard < longer ? 1 : 0);
}

template <int kRows, int kChunks, int kSlices>
__global__ void __launch_bounds__(Layout<kRows, kChunks, kSlices>::kThreads, 1)
    decode_kernel(const __grid_constant__ Call call) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Layout = dense::Layout<kRows, kChunks, kSlices>;
  extern __shared__ __align__(1024) uint8_t shared[];
  const int group = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / kWarpgroup, 0);
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroup;
  const int rank = cluster_rank();
  if (call.parts.divisor > 1) let_next_kernel_start();
  if (group > Layout::kValueGroups) {
    if constexpr (Layout::kMovesRegisters) release_registers<Layout::kCopierRegisters>();
    if (thread >= 32) return;
    // The fence of the barriers waits for loads: none are on their way yet.
    const uint32_t base = smem_address(shared);
    init_barriers<Layout>(base, thread);
    named_barrier_arrive(kReadyBarrier, Layout::kWorkers + 32);
    if (thread == 0) prefetch_tensor_map(&call.pages);
    Task task = place_of_block<kRows, kSlices>(call);
    load_pages_ahead(call, task, thread);
    if (thread == 0 && call.queries_mapped) copy_queries<Layout, kChunks>(call, task, base);
    __syncwarp();
    divide_tiles(call, rank, task);
    Copier<Layout, kChunks>(call, task, base, thread).run();
    return;  // the barriers of the cluster do not wait for threads that are gone
  }
  Task task = place_of_block<kRows, kSlices>(call);
  if (group == 1) look_ahead(call);
  named_barrier(kReadyBarrier, Layout::kWorkers + 32);
  divide_tiles(call, rank, task);
  if (!call.queries_mapped) {
    load_queries<Layout, kRows, kChunks>(call, task, shared, static_cast<int>(threadIdx.x));
    named_barrier(kReadyBarrier, Layout::kWorkers);
    if (threadIdx.x == 0) barrier_arrive(smem_address(shared) + Layout::kQueryFull);
    __syncwarp();
  }
  if (group == 0) {
    if constexpr (Layout::kMovesRegisters) take_registers<Layout::kScorerRegisters>();
    if constexpr (kRows == 64) {
      Scorer64<kChunks>(call, task, shared, thread).run();
    } else {
      Scorer<Layout, kRows, kChunks>(call, task, shared, thread).run();
    }
  } else {
    if constexpr (Layout::kMovesRegisters) take_registers<Layout::kAdderRegisters>();
    if constexpr (kRows == 64) {
      Adder64<kChunks>(task, shared, group - 1, thread).run();
    } else {
      Adder<Layout, kRows>(task, shared, group - 1, thread).run();
    }
  }
  __syncwarp();
  finish<Layout>(call, task, shared, rank);
#endif
}

template <int kRows, int kChunks, int kSlices>
cudaError_t launch(const Kernel& kernel, const DecodeArguments& arguments, const Grid& grid, cudaStream_t stream) {
  const Selection& main = arguments.main;
  Call call{};
  call.lengths = main.lengths;
  call.table = main.indices;
  call.table_stride = main.batch_stride;
  call.page_count = static_cast<int32_t>(
      std::min<int64_t>(main.pool.num_slots / main.pool.page_size.divisor, std::numeric_limits<int32_t>::max()));
  call.most_tokens = static_cast<int32_t>(std::min<int64_t>(int64_t{main.count} * main.pool.page_size.divisor,
                                                            std::numeric_limits<int32_t>::max() - kTileTokens));
  call.box_tokens = box_tokens(main.pool);
  call.table_pages = main.count;
  call.heads_per_row = arguments.heads_per_row;
  call.page_size = main.pool.page_size;
  call.heads = Divisor::of(arguments.num_heads);
  call.row_blocks = Divisor::of(grid.head_blocks);
  call.splits = arguments.splits;
  call.parts = arguments.parts;
  call.shards = arguments.shards;
  call.box_chunks = call.box_tokens == kTileTokens ? Layout<kRows, kChunks, kSlices>::kSlotChunks : 1;
  call.scale_high = arguments.scale_high;
  call.scale_low = arguments.scale_low;
  call.s_q = arguments.s_q;
  call.causal = arguments.causal;
  call.out = arguments.out;
  call.out_stride = arguments.out_stride;
  call.out_aligned = arguments.out_aligned;
  call.lse = arguments.lse;
  call.lse_stride = arguments.lse_stride;
  call.partial = arguments.partial;
  call.q = arguments.q;
  call.q_stride = arguments.q_stride;
  const cudaError_t error = make_page_map(main.pool, kChunks, call.box_chunks, call.box_tokens, call.pages);
  if (error != cudaSuccess) return error;
  call.queries_mapped = make_query_map(arguments, kChunks, grid.rows, kRows, call.queries);
  const dim3 blocks(static_cast<unsigned>(grid.rows * grid.parts * grid.head_blocks * kSlices * grid.splits), 1, 1);
  ClusterLaunch clusters(kernel, blocks, grid.splits, stream);
  return cudaLaunchKernelEx(&clusters.without_clusters_of_one().config(), decode_kernel<kRows, kChunks, kSlices>, call);
}

template <int kRows, int kChunks, int kSlices>
Kernel describe() {
  using Layout = dense::Layout<kRows, kChunks, kSlices>;
  Kernel kernel{};
  kernel.heads = kRows;
  kernel.splits = kAnySplits;
  kernel.shared_bytes = Layout::kBytes;
  kernel.threads = Layout::kThreads;
  kernel.slices = kSlices;
  kernel.lets_combine_start = true;
  kernel.function = reinterpret_cast<const void*>(&decode_kernel<kRows, kChunks, kSlices>);
  kernel.launch = &launch<kRows, kChunks, kSlices>;
  return kernel;
}

template <int kChunks>
Kernels describe_all() {
  if (std::string_view(FLASHMLA_ARCH_NAME) != "sm_90a") return {};
  return {describe<16, kChunks, 1>(), describe<16, kChunks, 2>(), describe<16, kChunks, 4>(),
          describe<32, kChunks, 1>(), describe<32, kChunks, 2>(), describe<32, kChunks, 4>(),
          describe<64, kChunks, 1>()};
}

}  // namespace flashmla::cuda::dense
