// Dense decode on sm_90a: the blocks of a cluster add up their results.
#pragma once

#include "kernels/cuda/dense_fetch.cuh"
#include "kernels/cuda/dense_layout.cuh"
#include "kernels/cuda/dense_ptx.cuh"
#include "kernels/cuda/finish.cuh"

namespace flashmla::cuda::dense {

__device__ __forceinline__ Destination destination(const Call& call, const Task& task, int row) {
  const RowOfTask query(call, task, row);
  const Head head = {true, query.token, query.head};
  Destination to{call.out + at(call.out_stride, task.request, head), call.lse + at(call.lse_stride, task.request, head),
                 nullptr, nullptr, call.out_aligned};
  if (call.parts.divisor > 1) {  // to `partial`
    const int64_t place =
        (int64_t{task.request} * call.parts.divisor + task.part) * call.heads_per_row + task.first_row + row;
    to.values = call.partial + place * kPartialDims;
    to.summary =
        reinterpret_cast<float2*>(call.partial + int64_t{task.all_parts} * call.heads_per_row * kPartialDims) + place;
  }
  return to;
}

__device__ __forceinline__ void add(float4& total, const float4& v, float by) {
  total.x = fmaf(v.x, by, total.x);
  total.y = fmaf(v.y, by, total.y);
  total.z = fmaf(v.z, by, total.z);
  total.w = fmaf(v.w, by, total.w);
}

// All threads but those that copy, of a block without others: a warp has a row.
template <typename Layout>
__device__ __forceinline__ void finish_alone(const Call& call, const Task& task, const uint8_t* shared) {
  constexpr int kOfLane = Layout::kResultDims / 4 / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 1
  for (int row = static_cast<int>(threadIdx.x) / 32; row < task.rows; row += Layout::kWorkers / 32) {
    const auto summary = read<float2>(shared + Layout::kSummaries + 8 * row);  // maximum, sum
    const Destination to = destination(call, task, row);
    const float share = summary.y == 0 ? 0 : 1 / summary.y;
#pragma unroll
    for (int k = 0; k < kOfLane; ++k) {
      const int quad = lane + 32 * k;
      to.store(kChunkDims * task.first_chunk + 4 * quad,
               times(read<float4>(shared + Layout::kSlots + row * Layout::kResultStride + 16 * quad), share));
    }
    if (lane == 0 && task.first_chunk == 0) to.store_sums(summary.x, summary.y);
  }
}

// The parts of a cluster's result that a block adds up: segments of 128 dimensions of a row, a lane has 4 of them.
// Where there are fewer segments than warps, several warps share one and take every n-th source.
template <typename Layout>
struct Segments {
  static constexpr int kWarps = Layout::kWorkers / 32;
  static constexpr int kOfRow = Layout::kResultDims / 128;

  int first, count;
  int sharers;  // warps that share a segment

  __device__ __forceinline__ Segments(const Call& call, const Task& task, int rank) {
    const int all = max(task.rows, 0) * kOfRow;
    const int each = static_cast<int>(quotient(all + call.splits.divisor - 1, call.splits));
    first = rank * each;
    count = max(min(all - first, each), 0);
    // The same for all blocks: the order of a sum is not to depend on where it is taken.
    sharers = each <= kWarps / 8 ? 8 : each <= kWarps / 4 ? 4 : each <= kWarps / 2 ? 2 : 1;
  }
};

// Adds up a segment of the results of sources `first`, `first` + `step`, .. {maximum, sum} of its row to `total`, of
// all sources.
template <typename Layout>
__device__ __forceinline__ float4 add_segment(const Call& call, uint32_t base, int row, int segment, int first,
                                              int step, float2& total) {
  constexpr int kAhead = 8;  // loads on their way
  static_assert(kMaxSplits <= 32);
  const int splits = static_cast<int>(call.splits.divisor);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint32_t part = base + Layout::kSlots + row * Layout::kResultStride + 512 * segment + 16 * lane;
  float2 own = {kNoMaximum, 0};  // maximum, sum: a lane has a source
  if (lane < splits) own = load_cluster_f2(map_to_rank(base + Layout::kSummaries + 8 * row, lane));
  float4 v[kAhead];
#pragma unroll
  for (int k = 0; k < kAhead; ++k) {
    if (first + k * step < splits) v[k] = load_cluster_f4(map_to_rank(part, first + k * step));
  }
  float maximum = own.x;
#pragma unroll
  for (int lanes = 1; lanes < kMaxSplits; lanes *= 2) {
    maximum = fmaxf(maximum, __shfl_xor_sync(~0U, maximum, lanes));
  }
  const float factor = exp2_fast(own.x - maximum);
  float sum = own.y * factor;
#pragma unroll
  for (int lanes = 1; lanes < kMaxSplits; lanes *= 2) sum += __shfl_xor_sync(~0U, sum, lanes);
  const float share = sum == 0 ? 0.0F : factor / sum;
  total = {maximum, sum};
  float4 values = {0, 0, 0, 0};
#pragma unroll 1
  for (int source = first; source < splits; source += kAhead * step) {
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (source + k * step >= splits) break;
      const float by = __shfl_sync(~0U, share, source + k * step);
      add(values, v[k], by);
      const int next = source + (k + kAhead) * step;
      if (next < splits) v[k] = load_cluster_f4(map_to_rank(part, next));
    }
  }
  return values;
}

// All threads but those that copy, when every block's results and summaries are in its shared memory.
template <typename Layout>
__device__ __forceinline__ void finish_cluster(const Call& call, const Task& task, uint8_t* shared, int rank) {
  using Segments = dense::Segments<Layout>;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const uint32_t base = smem_address(shared);
  const Segments segments(call, task, rank);
  const auto store = [&](int index, const float4& values, const float2& total) {
    const int row = index / Segments::kOfRow, segment = index % Segments::kOfRow;
    const Destination to = destination(call, task, row);
    to.store(kChunkDims * task.first_chunk + 128 * segment + 4 * lane, values);
    if (segment == 0 && task.first_chunk == 0 && lane == 0) to.store_sums(total.x, total.y);
  };
  if (segments.sharers == 1) {
#pragma unroll 1
    for (int i = warp; i < segments.count; i += Segments::kWarps) {
      const int index = segments.first + i;
      float2 total;
      const float4 values =
          add_segment<Layout>(call, base, index / Segments::kOfRow, index % Segments::kOfRow, 0, 1, total);
      store(index, values, total);
    }
    __syncwarp();
    cluster_arrive();
  } else {
    const int i = warp / segments.sharers, sharer = warp % segments.sharers;
    const int index = segments.first + i;
    float2 total = {0, 0};
    float4 values = {0, 0, 0, 0};
    uint8_t* partial = shared + Layout::kPartialSums + 512 * warp + 16 * lane;
    if (i < segments.count) {
      values = add_segment<Layout>(call, base, index / Segments::kOfRow, index % Segments::kOfRow, sharer,
                                   segments.sharers, total);
      if (sharer > 0) write(partial, values);
    }
    __syncwarp();
    cluster_arrive();
    named_barrier(kReadyBarrier, Layout::kWorkers);
    if (i < segments.count && sharer == 0) {
      for (int k = 1; k < segments.sharers; ++k) add(values, read<float4>(partial + 512 * k), 1);
      store(index, values, total);
    }
    __syncwarp();
  }
  // Others may still be reading here.
  cluster_wait();
}

// From results and summaries in shared memory to outputs; all threads but those that copy.
template <typename Layout>
__device__ __forceinline__ void finish(const Call& call, const Task& task, uint8_t* shared, int rank) {
  if (call.splits.divisor == 1) {
    named_barrier(kReadyBarrier, Layout::kWorkers);
    finish_alone<Layout>(call, task, shared);
  } else {
    cluster_arrive();
    cluster_wait();
    finish_cluster<Layout>(call, task, shared, rank);
  }
}

// Looks at what finish() will need of the arguments.
__device__ __forceinline__ void look_ahead(const Call& call) {
  const auto look = [](auto value) { asm volatile("" ::"r"(static_cast<uint32_t>(value))); };
  look(reinterpret_cast<uint64_t>(call.out));
  look(call.out_stride.batch);
  look(call.out_stride.head);
  look(call.lse_stride.batch);
  look(reinterpret_cast<uint64_t>(call.partial));
  look(call.heads.divisor);
}

}  // namespace flashmla::cuda::dense
