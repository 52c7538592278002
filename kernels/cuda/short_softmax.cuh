// The softmax of a block with one tile: a warp has all tokens of a head, later all blocks' sums of a head.
#pragma once

#include "kernels/cuda/finish.cuh"
#include "kernels/cuda/short_tokens.cuh"

namespace flashmla::cuda {

// The largest of all lanes; NaN counts as nothing.
__device__ __forceinline__ float warp_maximum(float value) {
  const int32_t bits = __float_as_int(fmaxf(value, kNoMaximum));
  const int32_t ordered = bits ^ (bits >> 31 & 0x7fffffff);
  const int32_t largest = __reduce_max_sync(~0U, ordered);
  return __int_as_float(largest ^ (largest >> 31 & 0x7fffffff));
}

struct HeadSums {
  float maximum, sum;
};

// Lane l has rows 2l and 2l + 1 of 64, of the next 64, and so on.
template <typename Layout>
struct SoftmaxRows {
  // Bit 2j + i: there is a token in row 64j + 2l + i.
  static __device__ __forceinline__ uint32_t present(const uint8_t* shared, int lane) {
    uint32_t bits = 0;
#pragma unroll
    for (int j = 0; j < (Layout::kTileTokens + 63) / 64; ++j) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int token = 64 * j + 16 * (lane >> 3) + token_of_row(2 * (lane & 7) + i);
        const auto valid = read<uint32_t>(shared + Layout::kValid + 4 * (token % Layout::kCopyWarps));
        bits |= (valid >> (token / Layout::kCopyWarps) & 1) << (2 * j + i);
      }
    }
    return bits;
  }
};

// Turns the scores of head h into weights. `sum`: this lane's part. kActive: groups that may have tokens.
template <typename Layout, int kActive>
__device__ __forceinline__ HeadSums weigh_head(uint8_t* shared, int h, uint32_t present, int lane) {
  constexpr int kTimes = (kActive + 3) / 4;
  const auto factor = read<float2>(shared + Layout::kFactors + 8 * h);  // high, low
  const uint8_t* scores = shared + Layout::kScores + 4 * (h * Layout::kScoreStride + 2 * lane);
  constexpr int kArrayStride = 4 * Layout::kHeads * Layout::kScoreStride;
  float raw[kTimes][2], product[kTimes][2];
  float maximum = kNoMaximum;
#pragma unroll
  for (int j = 0; j < kTimes; ++j) {
    constexpr int kParts = Layout::kScoreArrays;
    float2 part[kParts];
#pragma unroll
    for (int w = 0; w < kParts; ++w) part[w] = read<float2>(scores + w * kArrayStride + 256 * j);
#pragma unroll
    for (int step = 1; step < kParts; step *= 2) {
#pragma unroll
      for (int w = 0; w < kParts; w += 2 * step) part[w].x += part[w + step].x, part[w].y += part[w + step].y;
    }
    raw[j][0] = part[0].x, raw[j][1] = part[0].y;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      // The factor may be negative.
      const bool counts = (present >> (2 * j + i) & 1) != 0 && raw[j][i] != -INFINITY;
      product[j][i] = counts ? raw[j][i] * factor.x : -INFINITY;
      maximum = fmaxf(maximum, product[j][i]);
    }
  }
  maximum = ceilf(warp_maximum(maximum));
  const float reference = kWeightBits - maximum;
  float sum = 0;
#pragma unroll
  for (int j = 0; j < kTimes; ++j) {
    float weight[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      // The score is not rounded before the maximum is taken off it.
      const float exponent = fmaf(raw[j][i], factor.x, fmaf(raw[j][i], factor.y, reference));
      weight[i] = exp2_fast(product[j][i] == -INFINITY ? -INFINITY : exponent);
      sum += weight[i];
    }
    const int group = 4 * j + (lane >> 3);
    if (4 * j + 4 > Layout::kGroups && group >= Layout::kGroups) break;
    const int place = 2 * ((group * Layout::kHeads + h) * kGroupTokens + 2 * (lane & 7));
    write(shared + Layout::kWeights + place, pack_f16x2(weight[0], weight[1]));
    if constexpr (Layout::kHasBf16Values) {
      const uint32_t rounded = pack_bf16x2(weight[0], weight[1]);
      write(shared + Layout::kWeightsHigh + place, rounded);
      write(shared + Layout::kWeightsLow + place, rest_of_bf16(rounded, weight[0], weight[1]));
    }
  }
  return {maximum, sum};
}

}  // namespace flashmla::cuda
