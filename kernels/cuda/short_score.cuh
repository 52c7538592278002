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
      : shared_(shared), array_(Layout::score_array(warp)), first_(first_group(warp)), g_(lane >> 2), c_(lane & 3) {}

  // Scores of the warp's chunks, FP32, to shared memory. A NaN scale makes NaN. Short loops: code that runs once is
  // slow.
  __device__ __forceinline__ void run(int groups) const {
    QueryOperands q[kChunks][kTiles];
#pragma unroll
    for (int j = 0; j < kChunks; ++j) load_queries(kChunks * array_ + j, q[j]);
    if constexpr (kSharers == 1) wait_for(0);
    score(q, first_, groups);
    if constexpr (kHasNinth && kSharers == 1) add_ninth(groups);
  }

 private:
  static constexpr int kSharers = Layout::kScoreSharers;
  static constexpr int kChunks = kValueChunks / Layout::kScoreArrays;
  static constexpr bool kHasNinth = Format::kScoreChunks > kValueChunks;  // V32's, in BF16

  // Of every kSharers; warps that have brought tokens have the later ones.
  static __device__ __forceinline__ int first_group(int warp) {
    return (warp / Layout::kScoreArrays + kSharers / 2) % kSharers;
  }

  // Every warp has the ninth chunk for a group or two.
  __device__ __forceinline__ void add_ninth(int groups) const {
    if (array_ >= groups) return;
    QueryOperands q[kTiles];
    load_queries(Format::kBf16Chunk, q);
#pragma unroll 1
    for (int k = array_; k < groups; k += Layout::kMergeWarps) {
      float scores[kTiles][4];
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) scores[n][i] = read<float>(place(k, n, i));
      }
      add_bf16(k, q, scores);
      store(k, scores);
    }
  }

  // Or a quarter of its dimensions for all of the warp's groups: 16 of them, from 4c on four.
  __device__ __forceinline__ void add_quarter(int k, const uint2 (&q)[kTiles], float (&scores)[kTiles][4]) const {
    const int offset = Format::kBf16Offset + 32 * array_ + 8 * c_;
    const auto low = read<uint2>(row(k, g_) + offset), high = read<uint2>(row(k, g_ + 8) + offset);
    const uint32_t a[4] = {low.x, high.x, low.y, high.y};
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      float sum[4] = {};
      mma_bf16(sum, a, q[n].x, q[n].y);
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[n][i] += sum[i];
    }
  }

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
    uint2 ninth[kTiles];
    if constexpr (kHasNinth && kSharers > 1) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        ninth[n] = read<uint2>(shared_ + Layout::kQuery + (8 * n + g_) * Layout::kQueryStride +
                               128 * Format::kBf16Chunk + 32 * array_ + 8 * c_);
      }
    }
#pragma unroll(kSharers == 1 ? 2 : 1)
    for (int k = first; k < end; k += kSharers) {
      if (kSharers > 1) wait_for(k);
      float scores[kTiles][4] = {};
      Scales low, high;
      read_scales(k, g_, low);
      read_scales(k, g_ + 8, high);
#pragma unroll
      for (int j = 0; j < kChunks; ++j) {
        if (kBf16 && j == kChunks - 1) {
          add_bf16(k, q[j], scores);
        } else {
          add_e4m3(k, kChunks * array_ + j, low[j], high[j], q[j], scores);
        }
      }
      if constexpr (kHasNinth && kSharers > 1) add_quarter(k, ninth, scores);
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

  // Of operand row r of group k, for the warp's chunks; NaN from 2^127 on.
  using Scales = float[kChunks];
  __device__ __forceinline__ void read_scales(int k, int r, Scales& scales) const {
    if constexpr (Layout::kScalesInRows) {
      static_assert(kChunks <= 2);
      const auto bits = read<uint32_t>(row(k, r) + Format::kInnerScales + 4 * (kChunks * array_ / 2));
#pragma unroll
      for (int j = 0; j < kChunks; ++j) {
        scales[j] = (bits & 0x7fffffffU) >= 0x7f000000U ? NAN : __uint_as_float(bits);
      }
    } else {
      const uint8_t* const from =
          shared_ + Layout::kScales + kChunks * array_ * Layout::kTileTokens + kGroupTokens * k + r;
#pragma unroll
      for (int j = 0; j < kChunks; ++j) {
        const uint32_t byte = from[j * Layout::kTileTokens];
        scales[j] = __uint_as_float(byte == 255 ? 0x7fc00000U : byte << 23);
      }
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

  __device__ __forceinline__ void add_e4m3(int k, int chunk, float scale_low, float scale_high,
                                           const QueryOperands (&q)[kTiles], float (&scores)[kTiles][4]) const {
    ScoreOperands a;
    score_operands_e4m3(row(k, g_) + 64 * chunk, row(k, g_ + 8) + 64 * chunk, c_, a);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      float sum[2][4] = {};
      multiply<false>(a, q[n], sum);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        scores[n][i] = fmaf(sum[0][i] + sum[1][i], i < 2 ? scale_low : scale_high, scores[n][i]);
      }
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
