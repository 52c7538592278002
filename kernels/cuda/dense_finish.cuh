// Dense decode on sm_90a: the blocks of a cluster add up their results.
#pragma once

#include "kernels/cuda/dense_fetch.cuh"
#include "kernels/cuda/dense_layout.cuh"
#include "kernels/cuda/dense_ptx.cuh"
#include "kernels/cuda/finish.cuh"

namespace flashmla::cuda::dense {

__device__ __forceinline__ Destination destination(const DecodeArguments& a, const Pages& pages, const Task& task,
                                                   int row) {
  const RowOfTask query(pages, task, row);
  const Head head = {true, query.token, query.head};
  Destination to{a.out + at(a.out_stride, task.request, head), a.lse + at(a.lse_stride, task.request, head), nullptr,
                 nullptr, a.out_aligned};
  if (a.parts.divisor > 1) {  // to `partial`
    const int64_t place =
        (int64_t{task.request} * a.parts.divisor + task.part) * a.heads_per_row + task.first_row + row;
    to.values = a.partial + place * kPartialDims;
    to.summary =
        reinterpret_cast<float2*>(a.partial + int64_t{task.all_parts} * a.heads_per_row * kPartialDims) + place;
  }
  return to;
}

__device__ __forceinline__ void add(float4& total, const float4& v, float by) {
  total.x = fmaf(v.x, by, total.x);
  total.y = fmaf(v.y, by, total.y);
  total.z = fmaf(v.z, by, total.z);
  total.w = fmaf(v.w, by, total.w);
}

// Adds up this block's part of all rows' dimensions out of the shared memory of all blocks. shares: [row][source].
__device__ __forceinline__ void pull(const DecodeArguments& a, const Pages& pages, const Task& task, uint32_t base,
                                     const uint8_t* shares, int rank, int results, int stride, int workers) {
  constexpr int kAhead = 8;  // loads on their way
  const int splits = static_cast<int>(a.splits.divisor);
  const int quads = max(task.rows, 0) * (kPartialDims / 4);
  const int each = static_cast<int>(quotient(quads + splits - 1, a.splits));
  const int end = min(quads, (rank + 1) * each);
  for (int i = rank * each + static_cast<int>(threadIdx.x); i < end; i += workers) {
    const int row = i / (kPartialDims / 4), quad = i % (kPartialDims / 4);
    const uint32_t part = base + results + row * stride + 16 * quad;
    float4 total = {0, 0, 0, 0};
    for (int first = 0; first < splits; first += kAhead) {
      float4 v[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        if (first + k < splits) v[k] = load_cluster_f4(map_to_rank(part, first + k));
      }
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        if (first + k < splits) add(total, v[k], read<float>(shares + 4 * (kMaxSplits * row + first + k)));
      }
    }
    destination(a, pages, task, row).store(4 * quad, total);
  }
}

// Rows that a block of the cluster adds up where results are sent: as many as any block.
__device__ __forceinline__ int rows_of_block(const DecodeArguments& a, const Task& task) {
  return static_cast<int>(quotient(max(task.rows, 0) + a.splits.divisor - 1, a.splits));
}

// Of them, those there are for block `rank`.
__device__ __forceinline__ int own_rows(const DecodeArguments& a, const Task& task, int rank) {
  const int each = rows_of_block(a, task);
  return max(min(each, task.rows - rank * each), 0);
}

// One thread, before the barrier that tells the cluster that results are there.
template <int kRows, int kChunks>
__device__ __forceinline__ void expect_results(const DecodeArguments& a, const Task& task, uint32_t base, int rank) {
  using Layout = dense::Layout<kRows, kChunks>;
  if constexpr (Layout::kSends) {
    barrier_arrive_expect(base + Layout::kArrived, a.splits.divisor * own_rows(a, task, rank) * Layout::kResultStride);
  }
}

// All threads but those that copy, of a block without others: a warp has a row.
template <int kRows, int kChunks>
__device__ __forceinline__ void finish_alone(const DecodeArguments& a, const Pages& pages, const Task& task,
                                             const uint8_t* shared) {
  using Layout = dense::Layout<kRows, kChunks>;
  constexpr int kOfLane = kPartialDims / 4 / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 1
  for (int row = static_cast<int>(threadIdx.x) / 32; row < task.rows; row += Layout::kWorkers / 32) {
    const auto summary = read<float2>(shared + Layout::kSummaries + 8 * row);  // maximum, sum
    const Destination to = destination(a, pages, task, row);
    const float share = summary.y == 0 ? 0 : 1 / summary.y;
#pragma unroll
    for (int k = 0; k < kOfLane; ++k) {
      const int quad = lane + 32 * k;
      to.store(4 * quad, times(read<float4>(shared + Layout::kSlots + row * Layout::kResultStride + 16 * quad), share));
    }
    if (lane == 0) to.store_sums(summary.x, summary.y);
  }
}

// All threads but those that copy, when every block's results and summaries are in its shared memory. Block `rank` has
// the outputs of some rows, or of a part of the rows' dimensions.
template <int kRows, int kChunks>
__device__ __forceinline__ void finish(const DecodeArguments& a, const Pages& pages, const Task& task, uint8_t* shared,
                                       int rank) {
  using Layout = dense::Layout<kRows, kChunks>;
  const int splits = static_cast<int>(a.splits.divisor);
  const uint32_t base = smem_address(shared);
  const int each_rows = rows_of_block(a, task);
  if (Layout::kSends && static_cast<int>(threadIdx.x) < splits) {
    const int to = static_cast<int>(threadIdx.x);
    const int rows = own_rows(a, task, to);
    if (rows > 0) {
      copy_to_cluster(map_to_rank(base + Layout::kReceived + rank * each_rows * Layout::kResultStride, to),
                      base + Layout::kSlots + to * each_rows * Layout::kResultStride, rows * Layout::kResultStride,
                      map_to_rank(base + Layout::kArrived, to));
    }
  }
  __syncwarp();
  // What each source's results are multiplied with. A half of a warp has a row, a lane a source.
  static_assert(kMaxSplits == 16 && kRows % 2 == 0);
  uint8_t* shares = shared + Layout::kShares;
  uint8_t* totals = shared + Layout::kTotals;
  const int source = static_cast<int>(threadIdx.x) % kMaxSplits;
  for (int row = static_cast<int>(threadIdx.x) / kMaxSplits; row < kRows; row += Layout::kWorkers / kMaxSplits) {
    float2 own = {kNoMaximum, 0};  // maximum, sum
    if (source < splits) own = load_cluster_f2(map_to_rank(base + Layout::kSummaries + 8 * row, source));
    float maximum = own.x;
#pragma unroll
    for (int lanes = 1; lanes < kMaxSplits; lanes *= 2) {
      maximum = fmaxf(maximum, __shfl_xor_sync(~0U, maximum, lanes));
    }
    const float factor = exp2_fast(own.x - maximum);
    float sum = own.y * factor;
#pragma unroll
    for (int lanes = 1; lanes < kMaxSplits; lanes *= 2) sum += __shfl_xor_sync(~0U, sum, lanes);
    write(shares + 4 * (kMaxSplits * row + source), sum == 0 ? 0.0F : factor / sum);
    if (source == 0) write(totals + 8 * row, float2{maximum, sum});
  }
  named_barrier(kReadyBarrier, Layout::kWorkers);
  if constexpr (Layout::kSends) {
    barrier_wait(base + Layout::kArrived, 0);
    const int items = own_rows(a, task, rank) * (kPartialDims / 4);
    for (int i = static_cast<int>(threadIdx.x); i < items; i += Layout::kWorkers) {
      const int row = i / (kPartialDims / 4), quad = i % (kPartialDims / 4);
      const uint8_t* part = shared + Layout::kReceived + row * Layout::kResultStride + 16 * quad;
      const uint8_t* share = shares + 4 * kMaxSplits * (rank * each_rows + row);
      float4 total = {0, 0, 0, 0};
#pragma unroll 4
      for (int s = 0; s < splits; ++s) {
        add(total, read<float4>(part + s * each_rows * Layout::kResultStride), read<float>(share + 4 * s));
      }
      destination(a, pages, task, rank * each_rows + row).store(4 * quad, total);
    }
  } else {
    pull(a, pages, task, base, shares, rank, Layout::kSlots, Layout::kResultStride, Layout::kWorkers);
  }
  for (int row = rank + splits * static_cast<int>(threadIdx.x); row < task.rows; row += splits * Layout::kWorkers) {
    const auto total = read<float2>(totals + 8 * row);
    destination(a, pages, task, row).store_sums(total.x, total.y);
  }
}

}  // namespace flashmla::cuda::dense
