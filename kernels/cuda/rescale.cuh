// The accumulators of the value product and the powers of two that they refer to.
#pragma once

#include "kernels/cuda/record.cuh"

namespace flashmla::cuda {

// FP32 accumulators of a warp's chunk: [instruction][8 heads][4].
template <int kTiles>
using Accumulators = float[4][kTiles][4];

// What the accumulators refer to for heads 8n + g, as the exponent of a power of two, and how a tile changes it.
template <int kTiles, int kGroups>
struct Rescale {
  // Many factors do not fit into registers: they are computed again where they are used.
  static constexpr bool kKeepsFactors = kTiles * kGroups <= 8;

  float reference[kTiles];
  float factor[kKeepsFactors ? kTiles : 1][kGroups];  // of each group's weights, for heads 8n + g

  // maxima: [head][group]; scale_maxima: [group], null: no scales.
  __device__ __forceinline__ void update(const uint8_t* maxima, const uint8_t* scale_maxima, int g, int c,
                                         Accumulators<kTiles>& accumulators) {
    float scale[kGroups];
#pragma unroll
    for (int k = 0; k < kGroups; k += 4) {
      float4 four = {0, 0, 0, 0};
      if (scale_maxima != nullptr) four = read<float4>(scale_maxima + 4 * k);
      scale[k] = four.x, scale[k + 1] = four.y, scale[k + 2] = four.z, scale[k + 3] = four.w;
    }
    float change[kTiles];
    bool grows = false;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      float(&exponent)[kGroups] = factor[kKeepsFactors ? n : 0];
      float now = reference[n];
#pragma unroll
      for (int k = 0; k < kGroups; k += 4) {
        const auto four = read<float4>(maxima + 4 * (kGroups * (8 * n + g) + k));
        exponent[k] = four.x + scale[k], exponent[k + 1] = four.y + scale[k + 1];
        exponent[k + 2] = four.z + scale[k + 2], exponent[k + 3] = four.w + scale[k + 3];
        now = fmaxf(fmaxf(fmaxf(exponent[k], exponent[k + 1]), fmaxf(exponent[k + 2], exponent[k + 3])), now);
      }
      change[n] = reference[n] - now;
      grows |= now > reference[n];
      reference[n] = now;
      if constexpr (kKeepsFactors) {
#pragma unroll
        for (int k = 0; k < kGroups; ++k) exponent[k] = exp2_fast(exponent[k] - now);
      }
    }
    if (!__any_sync(~0U, grows)) return;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const float mine = exp2_fast(change[n]);
      const float of_heads[2] = {__shfl_sync(~0U, mine, 8 * c), __shfl_sync(~0U, mine, 8 * c + 4)};
#pragma unroll
      for (int m = 0; m < 4; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) accumulators[m][n][i] *= of_heads[i & 1];
      }
    }
  }

  // After update(), with the same arguments.
  __device__ __forceinline__ float factor_of(const uint8_t* maxima, const uint8_t* scale_maxima, int g, int n,
                                             int k) const {
    if constexpr (kKeepsFactors) return factor[n][k];  // `k` is known when this is compiled
    const float scale = scale_maxima != nullptr ? read<float>(scale_maxima + 4 * k) : 0.0F;
    return exp2_fast(read<float>(maxima + 4 * (kGroups * (8 * n + g) + k)) + scale - reference[n]);
  }
};

}  // namespace flashmla::cuda
