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

// All threads but those that copy, when every block's results and summaries are in its shared memory. Block `rank` adds
// up a part of the rows' dimensions.
template <int kRows, int kChunks>
__device__ __forceinline__ void finish(const DecodeArguments& a, const Pages& pages, const Task& task, uint8_t* shared,
                                       int rank) {
  using Layout = dense::Layout<kRows, kChunks>;
  const int splits = static_cast<int>(a.splits.divisor);
  const uint32_t base = smem_address(shared);
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
  constexpr int kAhead = 8;  // loads on their way
  const int quads = max(task.rows, 0) * (kPartialDims / 4);
  const int each = static_cast<int>(quotient(quads + splits - 1, a.splits));
  const int end = min(quads, (rank + 1) * each);
  for (int i = rank * each + static_cast<int>(threadIdx.x); i < end; i += Layout::kWorkers) {
    const int row = i / (kPartialDims / 4), quad = i % (kPartialDims / 4);
    const uint32_t part = base + Layout::kSlots + row * Layout::kResultStride + 16 * quad;
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
  for (int row = rank + splits * static_cast<int>(threadIdx.x); row < task.rows; row += splits * Layout::kWorkers) {
    const auto total = read<float2>(totals + 8 * row);
    destination(a, pages, task, row).store_sums(total.x, total.y);
  }
}

}  // namespace flashmla::cuda::dense
