// LongWorker's value products: a warp has a chunk of 64 dimensions of all tokens of the tile.
#pragma once

#include "kernels/cuda/bf16_weights.cuh"
#include "kernels/cuda/long_worker.cuh"

namespace flashmla::cuda {

template <typename SharedLayout>
__device__ __forceinline__ bool LongWorker<SharedLayout>::adopt(uint8_t* stage, int groups, bool grows) {
  const float change = scales().prepare(stage, groups);
  float2 before[kTiles];
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    before[n] = read<float2>(common(n));
    if (g_ == 0 && !grows) write(maxima(stage, warp_, n), before[n]);
  }
  named_barrier(team_barrier(), kThreads);
  bool even = true;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    float2 largest = {kNoMaximum, kNoMaximum};
#pragma unroll 2
    for (int w = 0; w < kWarps; ++w) {
      const auto maximum = read<float2>(maxima(stage, w, n));
      largest = {fmaxf(largest.x, maximum.x), fmaxf(largest.y, maximum.y)};
    }
    const auto mine = read<float2>(maxima(stage, warp_, n));
    // Lanes of one c have the same heads: each looks at one warp.
    const auto theirs = read<float2>(maxima(stage, g_, n));
    even &= theirs.x == largest.x && theirs.y == largest.y;
    sum_[n] *= exp2_fast(own(mine) - own(largest));
    rescale(n, {change * exp2_fast(before[n].x - largest.x), change * exp2_fast(before[n].y - largest.y)});
    if (warp_ == 0 && g_ == 0) write(common(n), largest);
  }
  named_barrier(team_barrier(), kThreads);
  return __all_sync(~0U, even);
}

template <typename SharedLayout>
__device__ __forceinline__ void LongWorker<SharedLayout>::accumulate(const uint8_t* stage) {
  if (warp_ == Format::kBf16Chunk) {
    if constexpr (Layout::kHasBf16Values) {
#pragma unroll kUnrolledGroups
      for (int k = 0; k < Layout::kGroups; ++k) add_group_bf16<false>(stage, k, true);
    }
  } else {
#pragma unroll kUnrolledGroups
    for (int k = 0; k < Layout::kGroups; ++k) add_group<false>(stage, k, true);
  }
}

template <typename SharedLayout>
__device__ __forceinline__ void LongWorker<SharedLayout>::accumulate_any(const uint8_t* stage, int groups, bool even) {
#pragma unroll 1
  for (int k = 0; k < groups; ++k) {
    if (warp_ == Format::kBf16Chunk) {
      if constexpr (Layout::kHasBf16Values) add_group_bf16<true>(stage, k, even);
    } else if (scales().are_spread()) {
      add_spread(stage, k, even);
    } else {
      add_group<true>(stage, k, even);
    }
  }
}

template <typename SharedLayout>
template <bool kAny>
__device__ __forceinline__ void LongWorker<SharedLayout>::add_group(const uint8_t* stage, int k, bool even) {
  const uint8_t* rows[4];
  find_rows<false>(stage, k, rows);
  ValueOperands a;
  value_operands_e4m3(rows, 0, a);
  const uint2 scale = scales().of_values(stage, k);
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    uint2 b = weights_of(stage, Layout::kWeights, k, n);
    if (kAny && !even) {
      const float by = factor_of(stage, maker_of(k), n);
      const uint32_t both = pack_f16x2(by, by);
      b = {multiply_f16x2(b.x, both), multiply_f16x2(b.y, both)};
    }
    b = {multiply_f16x2(b.x, scale.x), multiply_f16x2(b.y, scale.y)};
#pragma unroll
    for (int m = 0; m < 4; ++m) mma_f16(results_[m][n], a[m], b.x, b.y);
  }
}

template <typename SharedLayout>
template <bool kAny>
__device__ __forceinline__ void LongWorker<SharedLayout>::add_group_bf16(const uint8_t* stage, int k, bool even) {
  const uint8_t* rows[4];
  find_rows<true>(stage, k, rows);
  ValueOperands a;
  value_operands_bf16(rows, 0, a);
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    Bf16Weights b = {weights_of(stage, Layout::kWeightsHigh, k, n), weights_of(stage, Layout::kWeightsLow, k, n)};
    if (kAny && !even) {
      const float by = factor_of(stage, maker_of(k), n);
      b.multiply(pack_bf16x2(by, by));
    }
    b.add_products(a, n, results_);
  }
}

template <typename SharedLayout>
__device__ __forceinline__ void LongWorker<SharedLayout>::add_spread(const uint8_t* stage, int k, bool even) {
  const uint8_t* rows[4];
  find_rows<false>(stage, k, rows);
  ValueOperands a;
  value_operands_e4m3(rows, 0, a);
  convert_to_bf16(a);
  // In two steps: the power does not need to be a normal number by itself.
  const float half = exp2_fast(-0.5F * static_cast<float>(scales().exponent()));
  float scale[4];
#pragma unroll
  for (int x = 0; x < 4; ++x) scale[x] = scales().of_token(stage, k, x) * half * half;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    const uint2 four = weights_of(stage, Layout::kWeights, k, n);
    const float by = even ? 1 : factor_of(stage, maker_of(k), n);
    const float product[4] = {low_f16(four.x) * by * scale[0], high_f16(four.x) * by * scale[1],
                              low_f16(four.y) * by * scale[2], high_f16(four.y) * by * scale[3]};
    const auto b = Bf16Weights::of(product);
#pragma unroll
    for (int m = 0; m < 4; ++m) b.add_product(a[m], results_[m][n]);
  }
}

}  // namespace flashmla::cuda
