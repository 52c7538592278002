// Dense decode on sm_90a: the blocks of a cluster add up their results.
#pragma once

#include "kernels/cuda/dense_layout.cuh"
#include "kernels/cuda/dense_ptx.cuh"
#include "kernels/cuda/finish.cuh"

namespace flashmla::cuda::dense {

__device__ __forceinline__ Destination destination(const DecodeArguments& a, const Work& work, int row) {
  const int32_t token = (work.first_row + row) / a.num_heads;
  const Head head = {true, token, work.first_row + row - token * a.num_heads};
  return Destination::of<Dense576>(a, {work.request, 0, work.first_row, work.request, work.part}, head, row);
}

// All threads but those that copy, when every block's results and summaries are in its shared memory. Block `rank` has
// the outputs of a part of the rows' dimensions; with one block alone all of them.
template <int kRows, int kChunks>
__device__ __forceinline__ void finish(const DecodeArguments& a, const Work& work, uint8_t* shared, int rank) {
  using Layout = dense::Layout<kRows, kChunks>;
  const int splits = static_cast<int>(a.splits.divisor);
  const uint32_t base = smem_address(shared);
  // What each source's results are multiplied with.
  uint8_t* shares = shared + Layout::kShares;
  for (int i = threadIdx.x; i < kRows * splits; i += Layout::kWorkers) {
    const int row = i % kRows;
    float maximum = kNoMaximum;
#pragma unroll 4
    for (int s = 0; s < splits; ++s) {
      maximum = fmaxf(maximum, load_cluster_f2(map_to_rank(base + Layout::kSummaries + 8 * row, s)).x);
    }
    float sum = 0;
#pragma unroll 4
    for (int s = 0; s < splits; ++s) {
      const float2 part = load_cluster_f2(map_to_rank(base + Layout::kSummaries + 8 * row, s));
      sum = fmaf(part.y, exp2_fast(part.x - maximum), sum);
    }
    const float own = load_cluster_f2(map_to_rank(base + Layout::kSummaries + 8 * row, i / kRows)).x;
    write(shares + 4 * i, sum == 0 ? 0.0F : exp2_fast(own - maximum) / sum);
    if (rank == 0 && i < work.rows) destination(a, work, row).store_sums(maximum, sum);
  }
  named_barrier(kReadyBarrier, Layout::kWorkers);
  const int quads = max(min(work.rows, kRows), 0) * (kPartialDims / 4);
  const int each = static_cast<int>(quotient(quads + splits - 1, a.splits));
  const int end = min(quads, (rank + 1) * each);
  for (int i = rank * each + threadIdx.x; i < end; i += Layout::kWorkers) {
    const int row = i / (kPartialDims / 4), quad = i % (kPartialDims / 4);
    const uint32_t part = base + Layout::kSlots + row * Layout::kResultStride + 16 * quad;
    float4 total = {0, 0, 0, 0};
#pragma unroll 8
    for (int s = 0; s < splits; ++s) {
      const float4 v = load_cluster_f4(map_to_rank(part, s));
      const auto by = read<float>(shares + 4 * (s * kRows + row));
      total.x = fmaf(v.x, by, total.x);
      total.y = fmaf(v.y, by, total.y);
      total.z = fmaf(v.z, by, total.z);
      total.w = fmaf(v.w, by, total.w);
    }
    destination(a, work, row).store(4 * quad, total);
  }
}

}  // namespace flashmla::cuda::dense
