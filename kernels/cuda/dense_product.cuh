// Dense decode on sm_90a: QK^T of a tile, chunk by chunk as the chunks arrive.
#pragma once

#include "kernels/cuda/dense_fetch.cuh"
#include "kernels/cuda/dense_layout.cuh"
#include "kernels/cuda/dense_ptx.cuh"

namespace flashmla::cuda::dense {

// What a thread of the scoring warpgroup knows of its place and of the call, whichever side the rows are on.
struct ScoringThread {
  __device__ __forceinline__ ScoringThread(const Call& call, const Task& task, uint8_t* shared, int thread)
      : call_(call),
        task_(task),
        shared_(shared),
        base_(smem_address(shared)),
        high_(call.scale_high),
        low_(call.scale_low),
        seen_by_all_(task.count - (call.causal ? call.s_q - 1 : 0)),
        thread_(thread),
        warp_(thread / 32),
        lane_(thread % 32),
        g_(lane_ >> 2),
        c_(lane_ & 3) {}

  const Call& call_;
  const Task& task_;
  uint8_t* shared_;
  const uint32_t base_;
  const float high_, low_;
  const int32_t seen_by_all_;  // tokens that all rows see
  const int thread_, warp_, lane_, g_, c_;
};

template <int kCount>
__device__ __forceinline__ void add_part(const float (&part)[kCount], float (&scores)[kCount], bool first) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) scores[i] = first ? part[i] : scores[i] + part[i];
}

// Queries times tokens, tokens on the M side; `place` is then that of the next tile.
// Tensor cores cut off what is small beside the sum so far: chunks are summed apart and added exactly rounded.
template <typename Layout, int kChunks, int kCount>
__device__ __forceinline__ void multiply_chunks(uint32_t base, RingPlace<Layout::kSlotCount>& place,
                                                float (&scores)[kCount]) {
  float part[2][kCount];
#pragma unroll
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    if (chunk % Layout::kSlotChunks == 0) barrier_wait(base + Layout::kFull + 8 * place.index, place.parity);
    const uint64_t tokens = operand(base + chunk_offset<Layout>(place, chunk % Layout::kSlotChunks));
    const uint64_t queries = operand(base + Layout::kQuery + Layout::kOperandBytes * chunk);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4; ++k) wgmma<false>(part[chunk & 1], tokens + 2 * k, queries + 2 * k, k > 0);
    wgmma_commit();
    if (chunk > 0) {
      wgmma_wait<1>();
      pin(part[(chunk - 1) & 1]);
      add_part(part[(chunk - 1) & 1], scores, chunk == 1);
    }
    if (chunk % Layout::kSlotChunks == Layout::kSlotChunks - 1) place.advance();
  }
  wgmma_wait<0>();
  pin(part[(kChunks - 1) & 1]);
  add_part(part[(kChunks - 1) & 1], scores, false);
}

}  // namespace flashmla::cuda::dense
