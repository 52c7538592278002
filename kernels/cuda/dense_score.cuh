// Dense decode on sm_90a: the warpgroup that makes weights out of queries and tokens.
#pragma once

#include "kernels/cuda/dense_fetch.cuh"
#include "kernels/cuda/dense_product.cuh"
#include "kernels/cuda/query.cuh"
#include "kernels/cuda/score.cuh"

namespace flashmla::cuda::dense {

// Scores have the tokens of a tile on the M side: a thread has tokens 16 warp + g and + 8 for rows 8n + 2c and + 1.
template <typename SharedLayout, int kRows, int kChunks>
class Scorer : ScoringThread {
 public:
  using Layout = SharedLayout;
  static constexpr int kTiles = kRows / 8;

  __device__ __forceinline__ Scorer(const Call& call, const Task& task, uint8_t* shared, int thread)
      : ScoringThread(call, task, shared, thread) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) maximum_[n][i] = kNoMaximum, sum_[n][i] = 0;
    }
  }

  __device__ __forceinline__ void run() {
    barrier_wait(base_ + Layout::kQueryFull, 0);
    RingPlace<Layout::kBuffers> buffer;
#pragma unroll 1
    for (int32_t tile = 0; tile < task_.tiles; ++tile) {
      const RingPlace<Layout::kSlotCount> first_slot = place_;
      float scores[4 * kTiles];
      multiply_chunks<Layout, kChunks>(base_, place_, scores);
      const int32_t first = (task_.first_tile + tile) * kTileTokens;
      const auto missing = read<uint32_t>(shared_ + Layout::kMissing + 4 * first_slot.index);
      if (first + kTileTokens > seen_by_all_ || missing != 0) {
        hide(scores, first, missing);
        if (first + kTileTokens > task_.count) {
          erase_values<Layout>(shared_, first_slot, task_.first_chunk, task_.count - first, thread_);
        }
      }
      weigh(scores, buffer, tile == 0);
      buffer.advance();
    }
    publish();
  }

 private:
  // Scores that do not count become -inf.
  __device__ __forceinline__ void hide(float (&scores)[4 * kTiles], int32_t first, uint32_t missing) const {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const int32_t visible[2] = {visible_tokens(call_, task_, 8 * n + 2 * c_),
                                  visible_tokens(call_, task_, 8 * n + 2 * c_ + 1)};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int32_t token = 16 * warp_ + g_ + 8 * (i / 2);
        const bool counts = first + token < visible[i & 1] && (missing >> (2 * warp_ + i / 2) & 1) == 0;
        if (!counts) scores[4 * n + i] = -INFINITY;
      }
    }
  }

  // Scores to weights, as soften() of score.cuh, and those to shared memory: BF16, and what that lacks.
  __device__ __forceinline__ void weigh(float (&scores)[4 * kTiles], const RingPlace<Layout::kBuffers>& buffer,
                                        bool first) {
    bool grows = first;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) grows |= product(scores[4 * n + i]) > maximum_[n][i & 1];
    }
    if (!first) grows = named_barrier_or(kScoreBarrier, kWarpgroup, grows);
    if (grows) {
      barrier_wait(base_ + Layout::kWeightsEmpty + 8 * buffer.index, buffer.parity ^ 1);
      raise(scores, buffer.index);
    }
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
          const float exponent = fmaf(score, high_, fmaf(score, low_, kWeightBits - maximum_[n][i]));
          weight[i] = exp2_fast(score == -INFINITY ? -INFINITY : exponent);
          sum_[n][i] += weight[i];
        }
        const uint32_t rounded = pack_bf16x2(weight[0], weight[1]);
        high[2 * n + r] = rounded;
        low[2 * n + r] = rest_of_bf16(rounded, weight[0], weight[1]);
      }
    }
    if (!grows) barrier_wait(base_ + Layout::kWeightsEmpty + 8 * buffer.index, buffer.parity ^ 1);
    const int q = lane_ >> 3;  // of the tiles of an instruction
    const uint32_t to = base_ + Layout::kWeights + buffer.index * 2 * Layout::kOperandBytes +
                        (8 * (q >> 1) + (lane_ & 7)) * 128 + (((2 * warp_ + (q & 1)) ^ (lane_ & 7)) << 4);
#pragma unroll
    for (int n = 0; n < kTiles; n += 2) {
      store_matrices_transposed(to + n * 1024, {high[2 * n], high[2 * n + 1], high[2 * n + 2], high[2 * n + 3]});
      store_matrices_transposed(to + n * 1024 + Layout::kOperandBytes,
                                {low[2 * n], low[2 * n + 1], low[2 * n + 2], low[2 * n + 3]});
    }
    if (lane_ == 0) write(shared_ + Layout::kGrows + 16 * buffer.index + 4 * warp_, static_cast<uint32_t>(grows));
    fence_async_proxy();
    __syncwarp();
    barrier_arrive(base_ + Layout::kWeightsFull + 8 * buffer.index);
  }

  // -inf stays -inf: the factor may be negative.
  __device__ __forceinline__ float product(float score) const {
    return score == -INFINITY ? -INFINITY : score * high_;
  }

  // New maxima, for the rows whose maximum grows, and what the sums so far are multiplied with.
  __device__ __forceinline__ void raise(const float (&scores)[4 * kTiles], uint32_t buffer) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float largest = fmaxf(product(scores[4 * n + i]), product(scores[4 * n + 2 + i]));
        largest = fmaxf(largest, __shfl_xor_sync(~0U, largest, 4));
        largest = fmaxf(largest, __shfl_xor_sync(~0U, largest, 8));
        largest = fmaxf(largest, __shfl_xor_sync(~0U, largest, 16));
        if (g_ == 0) write(shared_ + Layout::kMaxima + 16 * (8 * n + 2 * c_ + i) + 4 * warp_, largest);
      }
    }
    named_barrier(kScoreBarrier, kWarpgroup);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int row = 8 * n + 2 * c_ + i;
        const auto four = read<float4>(shared_ + Layout::kMaxima + 16 * row);
        const float largest = fmaxf(fmaxf(four.x, four.y), fmaxf(four.z, four.w));
        float factor = 1;
        if (largest > maximum_[n][i]) {
          const float maximum = round_up_maximum(largest);
          factor = exp2_fast(maximum_[n][i] - maximum);
          sum_[n][i] *= factor;
          maximum_[n][i] = maximum;
        }
        if (warp_ == 0 && g_ == 0) write(shared_ + Layout::kFactors + 4 * (buffer * kRows + row), factor);
      }
    }
  }

  // {maximum, sum} of each row.
  __device__ __forceinline__ void publish() {
    named_barrier(kScoreBarrier, kWarpgroup);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float sum = sum_[n][i];
#pragma unroll
        for (int lanes = 4; lanes < 32; lanes *= 2) sum += __shfl_xor_sync(~0U, sum, lanes);
        const int row = 8 * n + 2 * c_ + i;
        if (g_ == 0) write(shared_ + Layout::kMaxima + 16 * row + 4 * warp_, sum);
        if (g_ == 0 && warp_ == 0) write(shared_ + Layout::kSummaries + 8 * row, maximum_[n][i]);
      }
    }
    named_barrier(kScoreBarrier, kWarpgroup);
    if (thread_ >= kRows) return;
    const auto four = read<float4>(shared_ + Layout::kMaxima + 16 * thread_);
    write(shared_ + Layout::kSummaries + 8 * thread_ + 4, (four.x + four.y) + (four.z + four.w));
  }

  RingPlace<Layout::kSlotCount> place_;
  float maximum_[kTiles][2];
  float sum_[kTiles][2];
};

}  // namespace flashmla::cuda::dense
