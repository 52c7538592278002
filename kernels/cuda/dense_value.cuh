// Dense decode on sm_90a: the warpgroups that add up weighted values.
#pragma once

#include "kernels/cuda/dense_layout.cuh"
#include "kernels/cuda/dense_ptx.cuh"

namespace flashmla::cuda::dense {

// Results have the dimensions of a chunk on the M side: a thread has dimensions 16 warp + g and + 8 of each of its
// group's chunks, for rows 8n + 2c and + 1.
template <int kRows, int kChunks>
class Adder {
 public:
  using Layout = dense::Layout<kRows, kChunks>;
  static constexpr int kTiles = kRows / 8;
  static constexpr int kOwn = Layout::kValueChunksOfGroup;

  __device__ __forceinline__ Adder(const Work& work, uint8_t* shared, int group, int thread)
      : work_(work),
        shared_(shared),
        base_(smem_address(shared)),
        first_chunk_(kOwn * group),
        warp_(thread / 32),
        lane_(thread % 32),
        g_(lane_ >> 2),
        c_(lane_ & 3) {
#pragma unroll
    for (int m = 0; m < kOwn; ++m) {
#pragma unroll
      for (int i = 0; i < 4 * kTiles; ++i) sums_[m][i] = 0;
    }
  }

  __device__ __forceinline__ void run() {
    RingPlace<Layout::kSlotCount> place = RingPlace<Layout::kSlotCount>().ahead(first_chunk_);
    RingPlace<Layout::kBuffers> buffer;
#pragma unroll 1
    for (int32_t tile = 0; tile < work_.tiles; ++tile) {
      barrier_wait(base_ + Layout::kWeightsFull + 8 * buffer.index, buffer.parity);
      if (read<uint32_t>(shared_ + Layout::kGrows + 4 * buffer.index) != 0) rescale(buffer.index);
      multiply(place, buffer.index);
      place.advance(kChunks);
      buffer.advance();
    }
    store();
  }

 private:
  __device__ __forceinline__ void rescale(uint32_t buffer) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const auto factor = read<float2>(shared_ + Layout::kFactors + 4 * (buffer * kRows + 8 * n + 2 * c_));
#pragma unroll
      for (int m = 0; m < kOwn; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums_[m][4 * n + i] *= (i & 1) == 0 ? factor.x : factor.y;
      }
    }
  }

  __device__ __forceinline__ void multiply(const RingPlace<Layout::kSlotCount>& place, uint32_t buffer) {
    const uint64_t high = operand(base_ + Layout::kWeights + buffer * 2 * Layout::kOperandBytes);
    const uint64_t low = high + Layout::kOperandBytes / 16;
    wgmma_fence();
#pragma unroll
    for (int m = 0; m < kOwn; ++m) {
      const uint64_t values = operand(base_ + Layout::kSlots + kSlotBytes * place.ahead(m).index);
#pragma unroll
      for (int k = 0; k < 4; ++k) wgmma<true>(sums_[m], values + 128 * k, low + 2 * k, true);
#pragma unroll
      for (int k = 0; k < 4; ++k) wgmma<true>(sums_[m], values + 128 * k, high + 2 * k, true);
      wgmma_commit();
    }
    release<0>(place);
    if (lane_ == 0) barrier_arrive(base_ + Layout::kWeightsEmpty + 8 * buffer);
  }

  // Chunk after chunk is free when its products are done.
  template <int kFirst>
  __device__ __forceinline__ void release(const RingPlace<Layout::kSlotCount>& place) {
    wgmma_wait<kOwn - 1 - kFirst>();
    if (lane_ == 0) barrier_arrive(base_ + Layout::kEmpty + 8 * place.ahead(kFirst).index);
    if constexpr (kFirst + 1 < kOwn) release<kFirst + 1>(place);
  }

  __device__ __forceinline__ void store() const {
    // The slots are free when all groups are done.
    if constexpr (Layout::kValueGroups > 1) named_barrier(kValueBarrier, kWarpgroup * Layout::kValueGroups);
    uint8_t* to = shared_ + Layout::kSlots + 4 * (kChunkDims * first_chunk_ + 16 * warp_ + g_);
#pragma unroll
    for (int m = 0; m < kOwn; ++m) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          write(to + (8 * n + 2 * c_ + (i & 1)) * Layout::kResultStride + 4 * (kChunkDims * m + 8 * (i / 2)),
                sums_[m][4 * n + i]);
        }
      }
    }
  }

  const Work& work_;
  uint8_t* shared_;
  const uint32_t base_;
  const int first_chunk_;
  const int warp_, lane_, g_, c_;
  float sums_[kOwn][4 * kTiles];
};

}  // namespace flashmla::cuda::dense
