// Dense decode on sm_90a: the warpgroup that adds up weighted values.
#pragma once

#include "kernels/cuda/dense_layout.cuh"
#include "kernels/cuda/dense_ptx.cuh"

namespace flashmla::cuda::dense {

// Results have the dimensions of a chunk on the M side: a thread has dimensions 16 warp + g and + 8 of each
// chunk, for rows 8n + 2c and + 1. The weights and what they lack are one operand: tensor cores read the values once.
template <typename SharedLayout, int kRows>
class Adder {
 public:
  using Layout = SharedLayout;
  static constexpr int kTiles = kRows / 8;
  static constexpr int kOwn = Layout::kValueChunksOfGroup;

  __device__ __forceinline__ Adder(const Task& task, uint8_t* shared, int group, int thread)
      : task_(task),
        shared_(shared),
        base_(smem_address(shared)),
        first_of_slice_(kOwn * group),
        first_chunk_(task.first_chunk + first_of_slice_),
        warp_(thread / 32),
        lane_(thread % 32),
        g_(lane_ >> 2),
        c_(lane_ & 3) {
#pragma unroll
    for (int m = 0; m < kOwn; ++m) {
#pragma unroll
      for (int i = 0; i < 8 * kTiles; ++i) sums_[m][i] = 0;
    }
  }

  __device__ __forceinline__ void run() {
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
        for (int i = 0; i < 8; ++i) {
          sums_[m][4 * (n + i / 4 * kTiles) + i % 4] *= (i & 1) == 0 ? factor.x : factor.y;
        }
      }
    }
  }

  __device__ __forceinline__ void multiply(const RingPlace<Layout::kSlotCount>& place, uint32_t buffer) {
    const uint64_t weights = operand(base_ + Layout::kWeights + buffer * 2 * Layout::kOperandBytes);
    wgmma_fence();
#pragma unroll
    for (int m = 0; m < kOwn; ++m) {
      const uint64_t values = operand(base_ + chunk_offset<Layout>(place, first_chunk_ + m));
#pragma unroll
      for (int k = 0; k < 4; ++k) wgmma<true>(sums_[m], values + 128 * k, weights + 2 * k, true);
      wgmma_commit();
    }
    if constexpr (kOwn == kValueChunks) {
      release<0>(place);
    } else {
      wgmma_wait<0>();
      if (lane_ == 0) {
#pragma unroll
        for (int slot = 0; slot < Layout::kSlotsOfTile; ++slot) {
          barrier_arrive(base_ + Layout::kEmpty + 8 * place.ahead(slot).index);
        }
      }
    }
    pin_sums();
    barrier_arrive(base_ + Layout::kWeightsEmpty + 8 * buffer);
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
    // The slots are free when both groups are done.
    if constexpr (Layout::kValueGroups == 2) named_barrier(kValueBarrier, 2 * kWarpgroup);
    uint8_t* to = shared_ + Layout::kSlots + 4 * (kChunkDims * first_of_slice_ + 16 * warp_ + g_);
#pragma unroll
    for (int m = 0; m < kOwn; ++m) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          write(to + (8 * n + 2 * c_ + (i & 1)) * Layout::kResultStride + 4 * (kChunkDims * m + 8 * (i / 2)),
                sums_[m][4 * n + i] + sums_[m][4 * (kTiles + n) + i]);
        }
      }
    }
  }

  const Task& task_;
  uint8_t* shared_;
  const uint32_t base_;
  const int first_of_slice_, first_chunk_;
  const int warp_, lane_, g_, c_;
  float sums_[kOwn][8 * kTiles];
};

}  // namespace flashmla::cuda::dense
