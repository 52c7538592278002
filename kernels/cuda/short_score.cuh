// QK^T of a block with one tile.
#pragma once

#include "kernels/cuda/score.cuh"
#include "kernels/cuda/short_tokens.cuh"

namespace flashmla::cuda {

template <typename Layout>
class ShortScore {
 public:
  using Format = typename Layout::Format;
  static constexpr int kTiles = Layout::kHeads / 8;

  __device__ __forceinline__ ShortScore(uint8_t* shared, int warp, int lane)
      : shared_(shared),
        array_(Layout::score_array(warp)),
        first_(warp / Layout::kScoreArrays),
        g_(lane >> 2),
        c_(lane & 3) {}

  // Scores of the warp's chunks, FP32, to shared memory. A NaN scale makes NaN. Short loops: code that runs once is
  // slow.
  __device__ __forceinline__ void run(int groups) const {
    QueryOperands q[kChunks][kTiles];
#pragma unroll
    for (int j = 0; j < kChunks; ++j) load_queries(kChunks * array_ + j, q[j]);
    if constexpr (kStep == 1 && Layout::kSteps > 1) {
#pragma unroll 1
      for (int first = 0; first < groups; first += Layout::kStepGroups) {
        wait_for(first);
        score(q, first, min(groups, first + Layout::kStepGroups));
      }
    } else {
      wait_for(0);
      score(q, first_, groups);
    }
    // V32's ninth chunk: every warp has it for a group or two of its own.
    const int ninth = first_ + kStep * array_;
    if (Format::kScoreChunks > kValueChunks && ninth < groups) {
      load_queries(Format::kBf16Chunk, q[0]);
#pragma unroll 1
      for (int k = ninth; k < groups; k += Layout::kMergeWarps) {
        float scores[kTiles][4];
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) scores[n][i] = read<float>(place(k, n, i));
        }
        add_bf16(k, q[0], scores);
        store(k, scores);
      }
    }
  }

 private:
  static constexpr int kStep = Layout::kScoreStep;
  static constexpr int kChunks = kValueChunks / Layout::kScoreArrays;

  // For the tokens of the step that group k is of.
  __device__ __forceinline__ void wait_for(int k) const {
    barrier_wait(smem_address(shared_ + Layout::kCopied + 8 * (k / Layout::kStepGroups)), 0);
  }

  // The warp's chunks of its groups from `first` to `end`.
  __device__ __forceinline__ void score(const QueryOperands (&q)[kChunks][kTiles], int first, int end) const {
    if (has_bf16()) {
      score_groups<true>(q, first, end);
    } else {
      score_groups<false>(q, first, end);
    }
  }

  // The last of them is in BF16.
  __device__ __forceinline__ bool has_bf16() const {
    return kChunks * array_ + kChunks - 1 == Format::kBf16Chunk;
  }

  template <bool kBf16>
  __device__ __forceinline__ void score_groups(const QueryOperands (&q)[kChunks][kTiles], int first, int end) const {
#pragma unroll(kStep == 1 ? 2 : 1)
    for (int k = first; k < end; k += kStep) {
      if (kStep > 1) wait_for(k);
      float scores[kTiles][4] = {};
#pragma unroll
      for (int j = 0; j < kChunks; ++j) {
        if (kBf16 && j == kChunks - 1) {
          add_bf16(k, q[j], scores);
        } else {
          add_e4m3(k, kChunks * array_ + j, q[j], scores);
        }
      }
      store(k, scores);
    }
  }

  __device__ __forceinline__ void load_queries(int chunk, QueryOperands (&q)[kTiles]) const {
    const uint8_t* query = shared_ + Layout::kQuery + g_ * Layout::kQueryStride;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) q[n] = query_operands<Format>(query + n * 8 * Layout::kQueryStride, chunk, c_);
  }

  __device__ __forceinline__ const uint8_t* row(int k, int r) const {
    return shared_ + Layout::kRows + (kGroupTokens * k + token_of_row(r)) * Format::kRowStride;
  }

  // NaN from 2^127 on.
  __device__ __forceinline__ float scale(int k, int chunk, int r) const {
    if constexpr (Layout::kScalesInRows) {
      const auto bits = read<uint32_t>(row(k, r) + Format::kInnerScales + 4 * (chunk / 2));
      return (bits & 0x7fffffffU) >= 0x7f000000U ? NAN : __uint_as_float(bits);
    } else {
      const uint32_t byte = shared_[Layout::kScales + chunk * Layout::kTileTokens + kGroupTokens * k + r];
      return __uint_as_float(byte == 255 ? 0x7fc00000U : byte << 23);
    }
  }

  // A chunk's products to two sums: each instruction waits for the one before it.
  template <bool kBf16>
  __device__ __forceinline__ static void multiply(const ScoreOperands& a, const QueryOperands& q, float (&sum)[2][4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (kBf16) {
        mma_bf16(sum[i & 1], a[i], q.b[i][0], q.b[i][1]);
      } else {
        mma_f16(sum[i & 1], a[i], q.b[i][0], q.b[i][1]);
      }
    }
  }

  __device__ __forceinline__ void add_e4m3(int k, int chunk, const QueryOperands (&q)[kTiles],
                                           float (&scores)[kTiles][4]) const {
    ScoreOperands a;
    score_operands_e4m3(row(k, g_) + 64 * chunk, row(k, g_ + 8) + 64 * chunk, c_, a);
    const float scales[2] = {scale(k, chunk, g_), scale(k, chunk, g_ + 8)};
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      float sum[2][4] = {};
      multiply<false>(a, q[n], sum);
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[n][i] = fmaf(sum[0][i] + sum[1][i], scales[i / 2], scores[n][i]);
    }
  }

  __device__ __forceinline__ void add_bf16(int k, const QueryOperands (&q)[kTiles], float (&scores)[kTiles][4]) const {
    ScoreOperands a;
    score_operands_bf16(row(k, g_) + Format::kBf16Offset, row(k, g_ + 8) + Format::kBf16Offset, c_, a);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      float sum[2][4] = {};
      multiply<true>(a, q[n], sum);
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[n][i] += sum[0][i] + sum[1][i];
    }
  }

  __device__ __forceinline__ uint8_t* place(int k, int n, int i) const {
    return shared_ + Layout::kScores +
           4 * ((array_ * Layout::kHeads + 8 * n + 2 * c_ + i % 2) * Layout::kScoreStride + kGroupTokens * k + g_ +
                8 * (i / 2));
  }

  __device__ __forceinline__ void store(int k, const float (&scores)[kTiles][4]) const {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) write(place(k, n, i), scores[n][i]);
    }
  }

  uint8_t* shared_;
  const int array_, first_, g_, c_;
};

}  // namespace flashmla::cuda
