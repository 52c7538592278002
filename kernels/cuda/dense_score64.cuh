// Dense decode on sm_90a, 64 rows in a block: the warpgroup that makes weights out of queries and tokens.
#pragma once

#include "kernels/cuda/dense_fetch.cuh"
#include "kernels/cuda/dense_product.cuh"
#include "kernels/cuda/query.cuh"
#include "kernels/cuda/score.cuh"

namespace flashmla::cuda::dense {

// Scores have the rows on the M side: a thread has rows 16 warp + g and + 8 of tokens 8n + 2c and + 1, so that a warp
// has all tokens of its rows.
template <int kChunks>
class Scorer64 : ScoringThread {
 public:
  using Layout = dense::Layout<64, kChunks>;
  static constexpr int kTiles = kTileTokens / 8;

  __device__ __forceinline__ Scorer64(const Call& call, const Task& task, uint8_t* shared, int thread)
      : ScoringThread(call, task, shared, thread) {}

  __device__ __forceinline__ void run() {
    barrier_wait(base_ + Layout::kQueryFull, 0);
    RingPlace<2> room;
    RingPlace<Layout::kBuffers> buffer;
#pragma unroll 1
    for (int32_t tile = 0; tile < task_.tiles; ++tile) {
      float scores[4 * kTiles];
      multiply(scores, room, tile);
      const int32_t first = (task_.first_tile + tile) * kTileTokens;
      const auto missing = read<uint32_t>(shared_ + Layout::kMissing + 4 * room.index);
      if (first + kTileTokens > seen_by_all_ || missing != 0) {
        hide(scores, first, missing);
        if (first + kTileTokens > task_.count) {
          erase_values<Layout>(shared_, room, 0, task_.count - first, thread_);
        }
        weigh<true>(scores, buffer);
      } else {
        weigh<false>(scores, buffer);
      }
      room.advance();
      buffer.advance();
    }
    publish();
  }

 private:
  // Queries times tokens of a tile. Tensor cores cut off what is small beside the sum so far: chunks are summed apart
  // and added exactly rounded.
  __device__ __forceinline__ void multiply(float (&scores)[4 * kTiles], const RingPlace<2>& room, int32_t tile) const {
    float part[2][4 * kTiles];
#pragma unroll
    for (int turn = 0; turn < kChunks; ++turn) {
      const int chunk = chunk_in_turn<kChunks>(turn);
      const uint32_t slot = slot_of_chunk(room, chunk);
      barrier_wait(base_ + Layout::kFull + 8 * slot, parity_of_chunk(room, chunk, tile));
      const uint64_t tokens = operand(base_ + chunk_offset<Layout>(room, chunk));
      const uint64_t queries = operand(base_ + Layout::kQuery + Layout::kOperandBytes * chunk);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < 4; ++k) wgmma<false>(part[turn & 1], queries + 2 * k, tokens + 2 * k, k > 0);
      wgmma_commit();
      if (turn == 0) continue;
      wgmma_wait<1>();
      pin(part[(turn - 1) & 1]);
      add_part(part[(turn - 1) & 1], scores, turn == 1);
      const int before = chunk_in_turn<kChunks>(turn - 1);
      if (before >= kValueChunks && lane_ == 0) {  // it has been used
        barrier_arrive(base_ + Layout::kEmpty + 8 * slot_of_chunk(room, before));
      }
    }
    wgmma_wait<0>();
    pin(part[(kChunks - 1) & 1]);
    add_part(part[(kChunks - 1) & 1], scores, false);
  }

  // Scores that do not count become -inf.
  __device__ __forceinline__ void hide(float (&scores)[4 * kTiles], int32_t first, uint32_t missing) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int32_t visible = visible_tokens(call_, task_, 16 * warp_ + g_ + 8 * r) - first;
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const bool counts = 8 * n + 2 * c_ + i < visible && (missing >> n & 1) == 0;
          if (!counts) scores[4 * n + 2 * r + i] = -INFINITY;
        }
      }
    }
  }

  // -inf stays -inf: the factor may be negative.
  template <bool kHidden>
  __device__ __forceinline__ float product(float score) const {
    return kHidden && score == -INFINITY ? -INFINITY : score * high_;
  }

  // Scores to weights, as soften() of score.cuh, and those to shared memory: BF16, and what that lacks. kHidden: some
  // scores may be -inf.
  template <bool kHidden>
  __device__ __forceinline__ void weigh(float (&scores)[4 * kTiles], const RingPlace<Layout::kBuffers>& buffer) {
    float factor[2] = {1, 1};
    bool grows = false;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float largest = product<kHidden>(scores[2 * r]);
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        largest =
            fmaxf(largest, fmaxf(product<kHidden>(scores[4 * n + 2 * r]), product<kHidden>(scores[4 * n + 2 * r + 1])));
      }
      largest = fmaxf(largest, __shfl_xor_sync(~0U, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(~0U, largest, 2));
      if (largest > maximum_[r]) {
        const float maximum = round_up_maximum(largest);
        factor[r] = exp2_fast(maximum_[r] - maximum);
        sum_[r] *= factor[r];
        maximum_[r] = maximum;
        grows = true;
      }
    }
    grows = __any_sync(~0U, grows) != 0;
    uint32_t high[2 * kTiles], low[2 * kTiles];
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float weight[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const float score = scores[4 * n + 2 * r + i];
          // The score is not rounded before the maximum is taken off it. Missing tokens stay -inf.
          const float exponent = fmaf(score, high_, fmaf(score, low_, kWeightBits - maximum_[r]));
          weight[i] = exp2_fast(kHidden && score == -INFINITY ? -INFINITY : exponent);
          sum_[r] += weight[i];
        }
        const uint32_t rounded = pack_bf16x2(weight[0], weight[1]);
        high[2 * n + r] = rounded;
        low[2 * n + r] = rest_of_bf16(rounded, weight[0], weight[1]);
      }
    }
    barrier_wait(base_ + Layout::kWeightsEmpty + 8 * buffer.index, buffer.parity ^ 1);
    const int q = lane_ >> 3;  // of the tiles of an instruction
    const uint32_t to = base_ + Layout::kWeights + buffer.index * 2 * Layout::kOperandBytes +
                        (16 * warp_ + 8 * (q & 1) + (lane_ & 7)) * 128;
#pragma unroll
    for (int n = 0; n < kTiles; n += 2) {
      const uint32_t piece = ((n + (q >> 1)) ^ (lane_ & 7)) << 4;
      store_matrices(to + piece, {high[2 * n], high[2 * n + 1], high[2 * n + 2], high[2 * n + 3]});
      store_matrices(to + piece + Layout::kOperandBytes, {low[2 * n], low[2 * n + 1], low[2 * n + 2], low[2 * n + 3]});
    }
    if (lane_ == 0) write(shared_ + Layout::kGrows + 16 * buffer.index + 4 * warp_, static_cast<uint32_t>(grows));
    if (grows && c_ == 0) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        write(shared_ + Layout::kFactors + 4 * (buffer.index * 64 + 16 * warp_ + g_ + 8 * r), factor[r]);
      }
    }
    fence_async_proxy();
    __syncwarp();
    barrier_arrive(base_ + Layout::kWeightsFull + 8 * buffer.index);
  }

  // {maximum, sum} of each row.
  __device__ __forceinline__ void publish() {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float sum = sum_[r];
      sum += __shfl_xor_sync(~0U, sum, 1);
      sum += __shfl_xor_sync(~0U, sum, 2);
      if (c_ == 0) write(shared_ + Layout::kSummaries + 8 * (16 * warp_ + g_ + 8 * r), float2{maximum_[r], sum});
    }
  }

  float maximum_[2] = {kNoMaximum, kNoMaximum};
  float sum_[2] = {0, 0};
};

}  // namespace flashmla::cuda::dense
