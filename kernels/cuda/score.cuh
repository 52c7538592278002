// A warp's scores of 16 tokens, and what the softmax makes of them: weights in shared memory for the value product.
#pragma once

#include "kernels/cuda/query.cuh"

namespace flashmla::cuda {

// Weights are 2^(score - maximum + 14), with the maximum rounded up to a multiple of 8: the largest weight of a head
// lies in (2^6, 2^14], and every weight that is not 2^-20 or less of it keeps the 11 bits of F16. Multiples of 8 seldom
// change, so that sums seldom need to be scaled.
constexpr float kWeightBits = 14;
constexpr float kNoMaximum = -3e38F;
constexpr float kMaximumStep = 8;

__device__ __forceinline__ float round_up_maximum(float score) {
  return ceilf(score * (1 / kMaximumStep)) * kMaximumStep;
}

// UE8M0 as FP32; the caller looks after NaN (255).
__device__ __forceinline__ float ue8m0(uint32_t word, int byte) {
  return __uint_as_float(__byte_perm(word, 0, 0x4440 | byte) << 23);
}

// Whether any scale of a token, of V4 or V32, is no number or infinite.
template <typename Format>
__device__ __forceinline__ bool has_nan(const uint8_t* scales) {
  if constexpr (Format::kInnerScales >= 0) {
    const auto v = read<uint4>(scales);
    constexpr uint32_t kInfinity = 0x7f800000U;
    return (v.x & kInfinity) == kInfinity || (v.y & kInfinity) == kInfinity || (v.z & kInfinity) == kInfinity ||
           (v.w & kInfinity) == kInfinity;
  } else {
    const auto v = read<uint2>(scales);  // the eighth byte is padding
    return (__vcmpeq4(v.x, ~0U) | (__vcmpeq4(v.y, ~0U) & 0x00ffffffU)) != 0;
  }
}

// The scales of one token as scores need them, FP32: of the chunks of one half of the row, for kHalvesE4m3 two of each.
template <typename Format>
struct ScoreScales {
  __device__ ScoreScales(const uint8_t* /*scales*/, int /*part_of_row*/) {}
};

template <>
struct ScoreScales<V4> {
  uint32_t word;
  __device__ ScoreScales(const uint8_t* scales, int part_of_row) : word(read<uint32_t>(scales + 4 * part_of_row)) {}
  __device__ float operator()(int chunk, int /*part*/) const { return ue8m0(word, chunk); }
};

template <>
struct ScoreScales<V32> {
  float2 values;
  __device__ ScoreScales(const uint8_t* scales, int part_of_row) : values(read<float2>(scales + 8 * part_of_row)) {}
  __device__ float operator()(int chunk, int /*part*/) const { return chunk < 2 ? values.x : values.y; }
};

template <>
struct ScoreScales<V41> {
  uint2 words;
  __device__ ScoreScales(const uint8_t* scales, int part_of_row) : words(read<uint2>(scales + 8 * part_of_row)) {}
  __device__ float operator()(int chunk, int part) const {
    return ue8m0(chunk < 2 ? words.x : words.y, 2 * (chunk & 1) + part);
  }
};

// One token's row and scales in shared memory.
struct StoredToken {
  const uint8_t* row;
  const uint8_t* scales;
};

// B operands: the 4 instructions of a chunk for one query.
struct QueryOperands {
  uint32_t b[4][2];
};

template <typename Format>
__device__ __forceinline__ QueryOperands query_operands(const uint8_t* query, int chunk, int c) {
  uint4 first, second;
  if constexpr (Format::kChunk == Chunk::kHalvesE4m3) {
    first = read<uint4>(query + 128 * chunk + 16 * c);
    second = read<uint4>(query + 128 * chunk + 64 + 16 * c);
  } else {
    first = read<uint4>(query + 128 * chunk + 32 * c);
    second = read<uint4>(query + 128 * chunk + 32 * c + 16);
  }
  return {{{first.x, first.y}, {first.z, first.w}, {second.x, second.y}, {second.z, second.w}}};
}

// Adds to scores[n] the chunks of one half; FP32 accumulators of heads 8n + 2c, 8n + 2c + 1 for operand row g, then for
// row g + 8; not yet scaled by softmax_scale. `query`: the row of head g of the warp's first 8 heads.
template <typename Format, int kTiles, int kQueryStride>
__device__ __forceinline__ void score_half(const StoredToken& low, const StoredToken& high, const uint8_t* query, int c,
                                           int second, float (&scores)[kTiles][4]) {
  const ScoreScales<Format> scales_low(low.scales, second), scales_high(high.scales, second);
  const uint8_t* row_low = low.row + second * Format::kSecondHalf;
  const uint8_t* row_high = high.row + second * Format::kSecondHalf;
  const uint8_t* query_half = query + second * 512;
  constexpr int kUnrolled = kDense<Format> && kTiles > 1 ? 1 : 5;  // dense chunks take many registers
#pragma unroll kUnrolled
  for (int i = 0; i < 5; ++i) {  // chunk 4 second + i
    if (i == 4 && (second == 0 || Format::kScoreChunks < 9)) break;
    ScoreOperands a;
    const bool last = i == Format::kScoreChunks - 5 && second == 1;
    const bool bf16 = kDense<Format> || (Format::kBf16Chunk >= 0 && last);
    if constexpr (kDense<Format>) {
      score_operands_bf16(row_low + 128 * i, row_high + 128 * i, c, a);
    } else if (bf16) {
      score_operands_bf16(low.row + Format::kBf16Offset, high.row + Format::kBf16Offset, c, a);
    } else if constexpr (Format::kChunk == Chunk::kScaledE4m3) {
      score_operands_e4m3(row_low + 64 * i, row_high + 64 * i, c, a);
    } else if constexpr (Format::kChunk == Chunk::kHalvesE4m3) {
      score_operands_halves(row_low + 64 * i, row_high + 64 * i, c, a);
    } else if constexpr (Format::kChunk == Chunk::kScaledE2m1) {
      score_operands_e2m1(row_low + 32 * i, row_high + 32 * i, c, low.scales[16 * second + 4 * i + c],
                          high.scales[16 * second + 4 * i + c], a);
    }
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const QueryOperands q = query_operands<Format>(query_half + n * 8 * kQueryStride, i, c);
      if (bf16 || Format::kChunk == Chunk::kScaledE2m1) {
        // Tensor cores cut off what is small beside the sum so far: chunks are summed apart and added exactly rounded.
        float sum[4] = {0, 0, 0, 0};
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          if (bf16) {
            mma_bf16(sum, a[k], q.b[k][0], q.b[k][1]);
          } else {
            mma_f16(sum, a[k], q.b[k][0], q.b[k][1]);
          }
        }
#pragma unroll
        for (int k = 0; k < 4; ++k) scores[n][k] += sum[k];
      } else if constexpr (kHasScales<Format>) {
        constexpr int kParts = Format::kChunk == Chunk::kHalvesE4m3 ? 2 : 1;
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          float sum[4] = {0, 0, 0, 0};
#pragma unroll
          for (int k = 4 / kParts * part; k < 4 / kParts * (part + 1); ++k) mma_f16(sum, a[k], q.b[k][0], q.b[k][1]);
          const float s0 = scales_low(i, part), s1 = scales_high(i, part);
          scores[n][0] = fmaf(sum[0], s0, scores[n][0]);
          scores[n][1] = fmaf(sum[1], s0, scores[n][1]);
          scores[n][2] = fmaf(sum[2], s1, scores[n][2]);
          scores[n][3] = fmaf(sum[3], s1, scores[n][3]);
        }
      }
    }
  }
}

// --- scales of the weights -------------------------------------------------------------------------------------------

// The scales of a group's weights. The two lanes of operand row lane / 2 have a half of the token's scales each.
template <typename Format>
struct GroupScales {
  static constexpr int kPerLane = kHasScales<Format> ? kWeightScales<Format> / 2 : 2;
  float value[kPerLane];
  float reference = 0;    // exponent of the power of two, a multiple of 4, that is at least the largest scale
  float smallest = 0;     // exponent of the smallest scale that is not 0
  uint32_t nan_rows = 0;  // bit 2r: row r has a NaN

  __device__ __forceinline__ GroupScales(const StoredToken& token, int lane) {
    if constexpr (kHasScales<Format>) {
      const int side = lane & 1;
      uint32_t exponent = 0;
      uint32_t least = ~0U;  // biased exponent, less 1: 0 becomes the largest number
      if constexpr (Format::kInnerScales >= 0) {
        const auto pair = read<float2>(token.scales + 8 * side);
        value[0] = value[1] = pair.x;
        value[2] = value[3] = pair.y;
        // The mantissa may double the power.
        const uint32_t x = __float_as_uint(pair.x) >> 23 & 0xff, y = __float_as_uint(pair.y) >> 23 & 0xff;
        exponent = max(x, y) + 1;
        least = min(x - 1, y - 1);
      } else {
#pragma unroll
        for (int i = 0; i < kPerLane / 4; ++i) {
          uint32_t word = read<uint32_t>(token.scales + kPerLane * side + 4 * i);
          if (Format::kScaleBytes == 8 && side == 1) word &= 0x00ffffffU;  // the eighth byte is padding
          exponent = max(exponent, max(max(word & 0xff, word >> 8 & 0xff), max(word >> 16 & 0xff, word >> 24)));
          least = min(least, min(min((word & 0xff) - 1, (word >> 8 & 0xff) - 1),
                                 min((word >> 16 & 0xff) - 1, (word >> 24) - 1)));
#pragma unroll
          for (int k = 0; k < 4; ++k) value[4 * i + k] = ue8m0(word, k);
        }
      }
      const uint32_t is_nan = __ballot_sync(~0U, exponent >= 255);
      nan_rows = (is_nan | is_nan >> 1) & 0x55555555U;
      const auto largest = static_cast<int32_t>(__reduce_max_sync(~0U, min(exponent, 254U)));
      reference = static_cast<float>(min((largest - 127 + 3) >> 2 << 2, 124));
      smallest = static_cast<float>(static_cast<int32_t>(min(__reduce_min_sync(~0U, least), 254U)) - 126);
    }
  }

  // F16 of the scales over their reference; to: [scale][row] of the group.
  __device__ __forceinline__ void store(uint8_t* to, int lane) const {
    if constexpr (kHasScales<Format>) {
      const float inverse = power_of_two(max(-static_cast<int32_t>(reference), -126));
      uint8_t* place = to + (lane & 1) * kPerLane * 2 * kGroupTokens + 2 * (lane >> 1);
#pragma unroll
      for (int i = 0; i < kPerLane; i += 2) {
        const uint32_t both = pack_f16x2(value[i] * inverse, value[i + 1] * inverse);
        write(place + i * 2 * kGroupTokens, static_cast<uint16_t>(both));
        write(place + (i + 1) * 2 * kGroupTokens, static_cast<uint16_t>(both >> 16));
      }
    }
  }
};

// --- softmax ---------------------------------------------------------------------------------------------------------

// What a warp remembers of its heads 8n + 2c + i: the maximum that its weights refer to, and this lane's part of the
// sum of the weights (before they are rounded).
template <int kTiles>
struct SoftmaxState {
  float maximum[kTiles][2];
  float sum[kTiles][2];
};

// Turns raw scores, -inf where a token does not count, into weights, in place.
template <int kTiles>
__device__ __forceinline__ void soften(float (&scores)[kTiles][4], const uint8_t* factors, int c,
                                       SoftmaxState<kTiles>& state) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    const auto factor = read<float4>(factors + 8 * (8 * n + 2 * c));  // high, low; high, low
    const float high[2] = {factor.x, factor.z}, low[2] = {factor.y, factor.w};
    float product[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      product[i] = scores[n][i] == -INFINITY ? -INFINITY : scores[n][i] * high[i & 1];  // the factor may be negative
    }
    const float largest[2] = {fmaxf(product[0], product[2]), fmaxf(product[1], product[3])};
    // Lanes of one c have the same heads; a head's maximum must not depend on other heads.
    const uint32_t mine = 0x11111111U << c;
    const uint32_t growing[2] = {__ballot_sync(~0U, largest[0] > state.maximum[n][0]),
                                 __ballot_sync(~0U, largest[1] > state.maximum[n][1])};
    if ((growing[0] | growing[1]) != 0) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float maximum = largest[i];
        maximum = fmaxf(maximum, __shfl_xor_sync(~0U, maximum, 4));
        maximum = fmaxf(maximum, __shfl_xor_sync(~0U, maximum, 8));
        maximum = fmaxf(maximum, __shfl_xor_sync(~0U, maximum, 16));
        if ((growing[i] & mine) == 0) continue;
        maximum = round_up_maximum(maximum);
        state.sum[n][i] *= exp2_fast(state.maximum[n][i] - maximum);
        state.maximum[n][i] = maximum;
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float reference = kWeightBits - state.maximum[n][i & 1];
      // The score is not rounded before the maximum is taken off it. Missing tokens stay -inf.
      const float exponent = fmaf(scores[n][i], high[i & 1], fmaf(scores[n][i], low[i & 1], reference));
      scores[n][i] = exp2_fast(product[i] == -INFINITY ? -INFINITY : exponent);
      state.sum[n][i & 1] += scores[n][i];
    }
  }
}

}  // namespace flashmla::cuda
