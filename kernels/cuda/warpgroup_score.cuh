// WarpgroupWorker's QK^T: the warp's group of 16 tokens on the M side of its warpgroup's wgmma, converted in registers.
#pragma once

#include "kernels/cuda/warpgroup.cuh"

namespace flashmla::cuda {

template <typename SharedLayout>
__device__ __forceinline__ void WarpgroupWorker<SharedLayout>::score(int slot, Scores& scores) const {
  const int token = token_of_operand(g_);
  const uint8_t* low = shared_ + Layout::kRows + slot * Layout::kSlotBytes + token * Format::kRowStride + 16 * c_;
  const uint8_t* scales = scales_of_slot(slot) + token * Format::kStoredScales;
#pragma unroll
  for (int i = 0; i < 4 * kTiles; ++i) scores[i] = 0;
  if constexpr (kTwoAtATime) {
    Sums sum[2];
    ScoreOperands a[2];
    score_operands(0, low, a[0]);
    issue_scores(tile_word(0), 0, a[0], sum[0]);
#pragma unroll
    for (int j = 0; j <= kLast; ++j) {
      if (j < kLast) {
        score_operands(j + 1, low, a[(j + 1) % 2]);
        issue_scores(tile_word(0), j + 1, a[(j + 1) % 2], sum[(j + 1) % 2]);
        wgmma_wait<1>();
      } else {
        wgmma_wait<0>();
      }
      add_scores(j, 0, scales, sum[j % 2], scores);
    }
  } else {
    // Not unrolled: the compiler would let sums of several chunks wait for being added, in more registers than there
    // are.
#pragma unroll 1
    for (int j = 0; j < kLast; ++j) score_chunk(tile_word(0), j, low, scales, scores);
    score_chunk(tile_word(0), kLast, low, scales, scores);
  }
}

template <typename SharedLayout>
__device__ __forceinline__ void WarpgroupWorker<SharedLayout>::score_chunk(uint32_t query, int chunk,
                                                                           const uint8_t* low, const uint8_t* scales,
                                                                           Scores& scores) const {
  ScoreOperands a;
  score_operands(chunk, low, a);
#pragma unroll
  for (int n = 0; n < kTiles; n += kTilesAtATime) {
    Sums sum;
    issue_scores(query + (8 * n * kSwizzledRow >> 4), chunk, a, sum);
    wgmma_wait<0>();
    add_scores(chunk, n, scales, sum, scores);
  }
}

template <typename SharedLayout>
__device__ __forceinline__ void WarpgroupWorker<SharedLayout>::score_operands(int chunk, const uint8_t* low,
                                                                              ScoreOperands& a) const {
  const uint8_t* high = low + 8 * Format::kRowStride;
  if (chunk == Format::kBf16Chunk) {
    score_operands_bf16(low + 16 * c_ + Format::kBf16Offset, high + 16 * c_ + Format::kBf16Offset, 0, a);
  } else {
    score_operands_e4m3(low + kChunkDims * chunk, high + kChunkDims * chunk, 0, a);
  }
}

template <typename SharedLayout>
__device__ __forceinline__ void WarpgroupWorker<SharedLayout>::issue_scores(uint32_t queries, int chunk,
                                                                            ScoreOperands& a, Sums& sum) {
  const bool bf16 = chunk == Format::kBf16Chunk;
  const uint32_t query = queries + (chunk * Layout::kHalfBytes >> 4);
  pin(a);
  wgmma_fence();
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (bf16) {
      i == 0 ? wgmma_bf16_first(sum, a[i], query) : wgmma_bf16(sum, a[i], query + 2 * i);
    } else {
      i == 0 ? wgmma_f16_first(sum, a[i], query) : wgmma_f16(sum, a[i], query + 2 * i);
    }
  }
  wgmma_commit();
}

template <typename SharedLayout>
__device__ __forceinline__ void WarpgroupWorker<SharedLayout>::add_scores(int chunk, int tile, const uint8_t* scales,
                                                                          Sums& sum, Scores& scores) {
  pin(sum);
  float by[2] = {1, 1};
  if (chunk != Format::kBf16Chunk) {
    by[0] = score_scale(scales, chunk), by[1] = score_scale(scales + 8 * Format::kStoredScales, chunk);
  }
#pragma unroll
  for (int i = 0; i < 4 * kTilesAtATime; ++i) {
    float& score = scores[4 * tile + i];
    score = fmaf(sum[i], by[i >> 1 & 1], score);
  }
}

template <typename SharedLayout>
__device__ __forceinline__ float WarpgroupWorker<SharedLayout>::score_scale(const uint8_t* scales, int chunk) {
  if constexpr (Format::kInnerScales >= 0) return read<float>(scales + 4 * (chunk / 2));
  return __uint_as_float(static_cast<uint32_t>(scales[chunk]) << 23);
}

template <typename SharedLayout>
__device__ __forceinline__ void WarpgroupWorker<SharedLayout>::spread_nan(int slot, float (&scores)[4 * kTiles]) const {
  const uint8_t* scales = scales_of_slot(slot) + token_of_operand(g_) * Format::kStoredScales;
  const bool nan[2] = {has_nan<Format>(scales), has_nan<Format>(scales + 8 * Format::kStoredScales)};
  if (!__any_sync(~0U, nan[0] || nan[1])) return;
#pragma unroll
  for (int i = 0; i < 4 * kTiles; ++i) {
    if (nan[i >> 1 & 1]) scores[i] = NAN;
  }
}

}  // namespace flashmla::cuda
