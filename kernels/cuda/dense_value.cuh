// Dense decode on sm_90a: the warpgroup that adds up weighted values.
#pragma once

#include "kernels/cuda/dense_layout.cuh"
#include "kernels/cuda/dense_ptx.cuh"

namespace flashmla::cuda::dense {

// Results have the dimensions of a chunk on the M side: a thread has dimensions 16 warp + g and + 8 of each
// chunk, for rows 8n + 2c and + 1.
template <int kRows, int kChunks>
class Adder {
 public:
  using Layout = dense::Layout<kRows, kChunks>;
  static constexpr int kTiles = kRows / 8;
  // With 16 rows the weights and what they lack are one operand: tensor cores read the values once.
  static constexpr int kParts = kRows == 16 ? 2 : 1;
  static constexpr int kOwn = Layout::kValueChunksOfGroup;

  __device__ __forceinline__ Adder(const Task& task, uint8_t* shared, int thread)
      : task_(task),
        shared_(shared),
        base_(smem_address(shared)),
        warp_(thread / 32),
        lane_(thread % 32),
        g_(lane_ >> 2),
        c_(lane_ & 3) {
#pragma unroll
    for (int m = 0; m < kOwn; ++m) {
#pragma unroll
      for (int i = 0; i < 4 * kTiles * kParts; ++i) sums_[m][i] = 0;
    }
  }

  __device__ __forceinline__ void run() {
    static_assert(Layout::kValueGroups == 1);
    RingPlace<Layout::kSlotCount> place;
    RingPlace<Layout::kBuffers> buffer;
#pragma unroll 1
    for (int32_t tile = 0; tile < task_.tiles; ++tile) {
      barrier_wait(base_ + Layout::kWeightsFull + 8 * buffer.index, buffer.parity);
      if (read<uint32_t>(shared_ + Layout::kGrows + 16 * buffer.index) != 0) {
        rescale(buffer.index);
        pin_sums();
      }
      multiply(place, buffer.index);
      place.advance(Layout::kSlotsOfTile);
      buffer.advance();
    }
    store();
  }

 private:
  __device__ __forceinline__ void pin_sums() {
#pragma unroll
    for (int m = 0; m < kOwn; ++m) pin(sums_[m]);
  }

  __device__ __forceinline__ void rescale(uint32_t buffer) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const auto factor = read<float2>(shared_ + Layout::kFactors + 4 * (buffer * kRows + 8 * n + 2 * c_));
#pragma unroll
      for (int m = 0; m < kOwn; ++m) {
#pragma unroll
        for (int i = 0; i < 4 * kParts; ++i) {
          sums_[m][4 * (n + i / 4 * kTiles) + i % 4] *= (i & 1) == 0 ? factor.x : factor.y;
        }
      }
    }
  }

  __device__ __forceinline__ void multiply(const RingPlace<Layout::kSlotCount>& place, uint32_t buffer) {
    const uint64_t high = operand(base_ + Layout::kWeights + buffer * 2 * Layout::kOperandBytes);
    const uint64_t low = high + Layout::kOperandBytes / 16;
    wgmma_fence();
#pragma unroll
    for (int m = 0; m < kOwn; ++m) {
      const uint64_t values = operand(base_ + chunk_offset<Layout>(place, m));
      if constexpr (kParts == 1) {
#pragma unroll
        for (int k = 0; k < 4; ++k) wgmma<true>(sums_[m], values + 128 * k, low + 2 * k, true);
      }
#pragma unroll
      for (int k = 0; k < 4; ++k) wgmma<true>(sums_[m], values + 128 * k, high + 2 * k, true);
      wgmma_commit();
    }
    release<0>(place);
    pin_sums();
    if (lane_ == 0) barrier_arrive(base_ + Layout::kWeightsEmpty + 8 * buffer);
  }

  // Slot after slot is free when its products are done.
  template <int kSlot>
  __device__ __forceinline__ void release(const RingPlace<Layout::kSlotCount>& place) {
    constexpr int kDone = (kSlot + 1) * Layout::kSlotChunks;  // chunks
    wgmma_wait<(kDone < kOwn ? kOwn - kDone : 0)>();
    if (lane_ == 0) barrier_arrive(base_ + Layout::kEmpty + 8 * place.ahead(kSlot).index);
    if constexpr (kDone < kOwn) release<kSlot + 1>(place);
  }

  __device__ __forceinline__ void store() const {
    uint8_t* to = shared_ + Layout::kSlots + 4 * (16 * warp_ + g_);
#pragma unroll
    for (int m = 0; m < kOwn; ++m) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float sum = sums_[m][4 * n + i];
          if constexpr (kParts == 2) sum += sums_[m][4 * (kTiles + n) + i];
          write(to + (8 * n + 2 * c_ + (i & 1)) * Layout::kResultStride + 4 * (kChunkDims * m + 8 * (i / 2)), sum);
        }
      }
    }
  }

  const Task& task_;
  uint8_t* shared_;
  const uint32_t base_;
  const int warp_, lane_, g_, c_;
  float sums_[kOwn][4 * kTiles * kParts];
};

}  // namespace flashmla::cuda::dense
