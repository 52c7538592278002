// Dense decode on sm_90a, 64 rows in a block: the two warpgroups that add up weighted values.
#pragma once

#include "kernels/cuda/dense_layout.cuh"
#include "kernels/cuda/dense_ptx.cuh"

namespace flashmla::cuda::dense {

// Results have the rows on the M side: a thread has rows 16 warp + g and + 8 of dimensions 8n + 2c and + 1 of each of
// its group's pairs of chunks. Two chunks are multiplied at a time, rounded weights come through registers and what
// they lack from shared memory: with both from there and single chunks tensor cores would read 4 KB of it in the 32
// cycles of an instruction, which is all that it gives.
template <int kChunks>
class Adder64 {
 public:
  using Layout = dense::Layout<64, kChunks>;
  static constexpr int kTiles = 2 * kChunkDims / 8;
  static constexpr int kPairs = Layout::kValueChunksOfGroup / 2;
  static_assert(Layout::kSlotChunks == 1);

  __device__ __forceinline__ Adder64(const Task& task, uint8_t* shared, int group, int thread)
      : task_(task),
        shared_(shared),
        base_(smem_address(shared)),
        first_chunk_(2 * kPairs * group),
        warp_(thread / 32),
        lane_(thread % 32) {
#pragma unroll
    for (int m = 0; m < kPairs; ++m) {
#pragma unroll
      for (int i = 0; i < 4 * kTiles; ++i) sums_[m][i] = 0;
    }
  }

  __device__ __forceinline__ void run() {
    RingPlace<2> room;
    RingPlace<Layout::kBuffers> buffer;
#pragma unroll 1
    for (int32_t tile = 0; tile < task_.tiles; ++tile) {
      barrier_wait(base_ + Layout::kWeightsFull + 8 * buffer.index, buffer.parity);
      if (read<uint32_t>(shared_ + Layout::kGrows + 16 * buffer.index + 4 * warp_) != 0) {
        rescale(buffer.index);
        pin_sums();
      }
      const uint32_t weights = base_ + Layout::kWeights + buffer.index * 2 * Layout::kOperandBytes;
      uint32_t high[4][4];
      load(weights, high);
      pin(high);
      const uint64_t low = operand(weights + Layout::kOperandBytes);
      wgmma_fence();
#pragma unroll
      for (int m = 0; m < kPairs; ++m) {
        const uint64_t values = operand_pair(base_ + chunk_offset<Layout>(room, first_chunk_ + 2 * m), kChunkBytes);
#pragma unroll
        for (int k = 0; k < 4; ++k) wgmma_values(sums_[m], low + 2 * k, values + 128 * k);
#pragma unroll
        for (int k = 0; k < 4; ++k) wgmma_values(sums_[m], high[k], values + 128 * k);
        wgmma_commit();
      }
      release<0>(room);
      pin_sums();
      __syncwarp();
      barrier_arrive(base_ + Layout::kWeightsEmpty + 8 * buffer.index);
      room.advance();
      buffer.advance();
    }
    store();
  }

 private:
  __device__ __forceinline__ void pin_sums() {
#pragma unroll
    for (int m = 0; m < kPairs; ++m) pin(sums_[m]);
  }

  __device__ __forceinline__ void rescale(uint32_t buffer) {
    const uint8_t* factors = shared_ + Layout::kFactors + 4 * (buffer * 64 + 16 * warp_ + (lane_ >> 2));
    const float factor[2] = {read<float>(factors), read<float>(factors + 32)};
#pragma unroll
    for (int m = 0; m < kPairs; ++m) {
#pragma unroll
      for (int i = 0; i < 4 * kTiles; ++i) sums_[m][i] *= factor[i / 2 % 2];
    }
  }

  // The warp's rows of the weights of 4 times 16 tokens.
  __device__ __forceinline__ void load(uint32_t from, uint32_t (&weights)[4][4]) const {
    const uint32_t row = from + (16 * warp_ + (lane_ & 15)) * 128;
#pragma unroll
    for (int k = 0; k < 4; ++k) load_matrices(row + (((2 * k + (lane_ >> 4)) ^ (lane_ & 7)) << 4), weights[k]);
  }

  // Pair after pair is free when its products are done.
  template <int kPair>
  __device__ __forceinline__ void release(const RingPlace<2>& room) {
    wgmma_wait<kPairs - 1 - kPair>();
    if (lane_ == 0) {
      barrier_arrive(base_ + Layout::kEmpty + 8 * slot_of_chunk(room, first_chunk_ + 2 * kPair));
      barrier_arrive(base_ + Layout::kEmpty + 8 * slot_of_chunk(room, first_chunk_ + 2 * kPair + 1));
    }
    if constexpr (kPair + 1 < kPairs) release<kPair + 1>(room);
  }

  __device__ __forceinline__ void store() const {
    // The slots are free when both groups are done.
    named_barrier(kValueBarrier, kWarpgroup * Layout::kValueGroups);
    uint8_t* to = shared_ + Layout::kSlots + (16 * warp_ + (lane_ >> 2)) * Layout::kResultStride +
                  4 * (kChunkDims * first_chunk_ + 2 * (lane_ & 3));
#pragma unroll
    for (int m = 0; m < kPairs; ++m) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          write(to + 8 * r * Layout::kResultStride + 4 * (2 * kChunkDims * m + 8 * n),
                float2{sums_[m][4 * n + 2 * r], sums_[m][4 * n + 2 * r + 1]});
        }
      }
    }
  }

  const Task& task_;
  uint8_t* shared_;
  const uint32_t base_;
  const int first_chunk_;
  const int warp_, lane_;
  float sums_[kPairs][4 * kTiles];
};

}  // namespace flashmla::cuda::dense
