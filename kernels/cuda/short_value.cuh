// The value product of a block with one tile: a warp has a chunk of 64 dimensions, or half of one.
#pragma once

#include "kernels/cuda/bf16_weights.cuh"
#include "kernels/cuda/short_softmax.cuh"

namespace flashmla::cuda {

// Instructions of a warp for a group of tokens and 8 heads.
template <typename Layout>
constexpr int kValueInstructions = 4 / Layout::kWarpsOfChunk;
template <typename Layout>
using ShortResults = float[kValueInstructions<Layout>][Layout::kHeads / 8][4];
template <typename Layout>
using ShortOperands = uint32_t[kValueInstructions<Layout>][4];

// Results are sums of weights times values, times 2^-kResultBits so that they are not larger than what comes of them.
constexpr int kShortResultBits = 21;

// 2^exponent from 2^-149 on.
__device__ __forceinline__ float small_power_of_two(int32_t exponent) {
  return __int_as_float(exponent >= -126 ? (exponent + 127) << 23 : 1 << max(exponent + 149, 0));
}

// Rows of a tile for the value product; x: operand row 4c + x of group k.
template <typename Layout>
struct ValueRows {
  using Format = typename Layout::Format;
  static constexpr bool kHalves = Layout::kWarpsOfChunk == 2;
  const uint8_t* shared;
  int chunk, half, g, c;

  __device__ __forceinline__ const uint8_t* row(int k, int x, int offset) const {
    return shared + Layout::kRows + (kGroupTokens * k + 4 * x + ((c + 2 * x) & 3)) * Format::kRowStride + offset;
  }
  __device__ __forceinline__ int place_of_weights(int k, int n) const {
    return ((k * Layout::kHeads + 8 * n + g) * kGroupTokens + 4 * c) * 2;
  }
  // UE8M0 of the four rows.
  __device__ __forceinline__ uint32_t exponents(int k) const {
    return read<uint32_t>(shared + Layout::kScales + chunk * Layout::kTileTokens + kGroupTokens * k + 4 * c);
  }
  // FP32 scale, whatever the format.
  __device__ __forceinline__ float scale(int k, int x) const {
    if constexpr (Layout::kScalesInRows) return read<float>(row(k, x, Format::kInnerScales + 4 * (chunk / 2)));
    return ue8m0(exponents(k), x);
  }

  // Instruction m: dimensions 8g + 2m and the next; of a half 4g + 2m.
  __device__ __forceinline__ void operands_e4m3(int k, ShortOperands<Layout>& a) const {
    const int offset = kChunkDims * chunk + (kHalves ? 32 * half : 0);
    const uint8_t* const rows[4] = {row(k, 0, offset), row(k, 1, offset), row(k, 2, offset), row(k, 3, offset)};
    if constexpr (kHalves) {
      uint32_t words[4];
#pragma unroll
      for (int x = 0; x < 4; ++x) words[x] = read<uint32_t>(rows[x] + 4 * g);
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        const uint32_t order = m == 0 ? kInterleaveLow : kInterleaveHigh;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const uint32_t four = __byte_perm(words[2 * i], words[2 * i + 1], order);
          a[m][2 * i] = e4m3x2_to_f16x2(four);
          a[m][2 * i + 1] = e4m3x2_high_to_f16x2(four);
        }
      }
    } else {
      value_operands_e4m3(rows, g, a);
    }
  }
  __device__ __forceinline__ void operands_bf16(int k, ShortOperands<Layout>& a) const {
    const int offset = Format::kBf16Offset + (kHalves ? 64 * half : 0);
    const uint8_t* const rows[4] = {row(k, 0, offset), row(k, 1, offset), row(k, 2, offset), row(k, 3, offset)};
    if constexpr (kHalves) {
      uint2 words[4];
#pragma unroll
      for (int x = 0; x < 4; ++x) words[x] = read<uint2>(rows[x] + 8 * g);
#pragma unroll
      for (int m = 0; m < 2; ++m) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const uint2 &low = words[2 * i], &high = words[2 * i + 1];
          a[m][2 * i] = __byte_perm(m == 0 ? low.x : low.y, m == 0 ? high.x : high.y, 0x5410);
          a[m][2 * i + 1] = __byte_perm(m == 0 ? low.x : low.y, m == 0 ? high.x : high.y, 0x7632);
        }
      }
    } else {
      value_operands_bf16(rows, g, a);
    }
  }
};

constexpr int32_t kLargestScale = 253;

// The scales of a chunk for all tokens of a block, biased exponents.
struct ChunkScales {
  int32_t largest;  // a power of two that is at least the largest
  bool spread;      // too far apart for products with weights in F16
};

// The range of a warp's scales. `least` is less 1, so that 0 becomes the largest number.
struct Fp32Range {
  uint32_t most = 0, least = ~0U;  // biased exponents

  __device__ __forceinline__ void add(float scale) {
    const uint32_t exponent = __float_as_uint(scale) >> 23 & 0xff;
    most = max(most, exponent);
    least = min(least, exponent - 1);
  }
  __device__ __forceinline__ ChunkScales whole_warp() const {
    // The mantissa may double the power. The largest power has an inverse.
    const int32_t largest = min(static_cast<int32_t>(__reduce_max_sync(~0U, most)) + 1, kLargestScale);
    const auto smallest = static_cast<int32_t>(min(__reduce_min_sync(~0U, least), 254U)) + 1;
    return {largest, largest - smallest > 10};
  }
};
struct Ue8m0Range {
  uint32_t most = 0, least = ~0U;  // two 16-bit numbers each

  // Four scales; returns their exponents in pairs.
  __device__ __forceinline__ uint2 add(uint32_t word) {
    const uint2 pairs = {__byte_perm(word, 0, 0x4140), __byte_perm(word, 0, 0x4342)};
    most = __vimax3_u16x2(pairs.x, pairs.y, most);
    least = __viaddmin_u16x2(pairs.x, ~0U, least);
    least = __viaddmin_u16x2(pairs.y, ~0U, least);
    return pairs;
  }
  __device__ __forceinline__ ChunkScales whole_warp() const {
    const auto largest = static_cast<int32_t>(__reduce_max_sync(~0U, max(most & 0xffffU, most >> 16)));
    const auto smallest = static_cast<int32_t>(__reduce_min_sync(~0U, min(least & 0xffffU, least >> 16))) + 1;
    return {largest, largest - smallest > 14};
  }
};

// F16 of such exponents over 2^(largest - 127); what is less than 2^-14 becomes 0.
__device__ __forceinline__ uint2 f16_of_exponents(const uint2& pairs, int32_t largest) {
  const uint32_t bias = __byte_perm(static_cast<uint32_t>(15 - largest), 0, 0x1010);
  return {__viaddmax_s16x2_relu(pairs.x, bias, 0) << 10, __viaddmax_s16x2_relu(pairs.y, bias, 0) << 10};
}

// F16 of the scales of the chunk over 2^(largest - 127), for the rows 4c .. 4c + 3 of each group.
template <typename Layout, int kActive>
__device__ __forceinline__ ChunkScales chunk_scales(const ValueRows<Layout>& rows, uint2 (&scale)[kActive]) {
  if constexpr (Layout::kScalesInRows) {
    Fp32Range range;
    float value[kActive][4];
#pragma unroll
    for (int k = 0; k < kActive; ++k) {
#pragma unroll
      for (int x = 0; x < 4; ++x) range.add(value[k][x] = rows.scale(k, x));
    }
    const ChunkScales all = range.whole_warp();
    const float inverse = power_of_two(127 - all.largest);
#pragma unroll
    for (int k = 0; k < kActive; ++k) {
      scale[k] = {pack_f16x2(value[k][0] * inverse, value[k][1] * inverse),
                  pack_f16x2(value[k][2] * inverse, value[k][3] * inverse)};
    }
    return all;
  } else {
    Ue8m0Range range;
#pragma unroll
    for (int k = 0; k < kActive; ++k) scale[k] = range.add(rows.exponents(k));
    const ChunkScales scales = range.whole_warp();
#pragma unroll
    for (int k = 0; k < kActive; ++k) scale[k] = f16_of_exponents(scale[k], scales.largest);
    return scales;
  }
}

// The same where warps share them, into kValueScales: each warp looks at all and converts a part of them.
template <typename Layout, int kActive>
__device__ __forceinline__ ChunkScales share_chunk_scales(const ValueRows<Layout>& rows, int lane) {
  uint8_t* const to = const_cast<uint8_t*>(rows.shared) + Layout::kValueScales +
                      rows.chunk / Layout::kChunksOfScale * Layout::kScalesOfChunk;
  constexpr int kRows = kGroupTokens * kActive;
  if constexpr (Layout::kScalesInRows) {
    using Format = typename Layout::Format;
    constexpr int kTimes = (kRows + 31) / 32;
    const int token = lane / kGroupTokens * kGroupTokens + token_of_row(lane % kGroupTokens);
    const uint8_t* const scales =
        rows.shared + Layout::kRows + token * Format::kRowStride + Format::kInnerScales + 4 * (rows.chunk / 2);
    Fp32Range range;
    const auto of_row = [&](int i) { return read<float>(scales + 32 * i * Format::kRowStride); };
#pragma unroll
    for (int i = 0; i < kTimes; ++i) {
      if (32 * i + lane >= kRows) break;
      range.add(of_row(i));
    }
    const ChunkScales all = range.whole_warp();
    const float inverse = power_of_two(127 - all.largest);
    // Read again: a choice among registers would be one from memory.
#pragma unroll
    for (int j = 0; j < (kTimes + 3) / 4; ++j) {
      const int i = 4 * j + 2 * (rows.chunk % 2) + rows.half;
      if (32 * i + lane >= kRows) break;
      write(to + 2 * (32 * i + lane), static_cast<uint16_t>(pack_f16x2(of_row(i) * inverse, 0)));
    }
    return all;
  } else {
    // Four rows a lane, and four more; two 16-bit numbers each.
    constexpr int kTimes = (kRows + 127) / 128;
    static_assert(kTimes <= 2);
    const uint8_t* const scales = rows.shared + Layout::kScales + rows.chunk * Layout::kTileTokens + 4 * lane;
    uint2 scale[kTimes];
    Ue8m0Range range;
#pragma unroll
    for (int i = 0; i < kTimes; ++i) {
      scale[i] = range.add(128 * i + 4 * lane < kRows ? read<uint32_t>(scales + 128 * i) : 0);
    }
    const ChunkScales all = range.whole_warp();
    const uint2& last = scale[kTimes - 1];
    const uint2 mine = {rows.half == 0 ? scale[0].x : last.x, rows.half == 0 ? scale[0].y : last.y};
    const int row = 4 * lane + 128 * rows.half;
    if (row < kRows) write(to + 2 * row, f16_of_exponents(mine, all.largest));
    return all;
  }
}

// Operands of kActive groups; those of as many as there are registers for are read and converted before there are
// weights.
template <typename Layout, int kActive, bool kBf16>
struct ShortValues {
  static constexpr int kMostAhead = !Layout::kScalesInRows ? 9 : Layout::kHeads == 8 ? 10 : 5;
  static constexpr int kAhead = kActive < kMostAhead ? kActive : kMostAhead;
  ValueRows<Layout> rows;
  ShortOperands<Layout> a[kAhead];
  uint2 scale[Layout::kSharesScales ? 1 : kActive];
  ChunkScales scales;

  __device__ __forceinline__ ShortValues(const ValueRows<Layout>& value_rows, int lane)
      : rows(value_rows), scales{127, false} {
#pragma unroll
    for (int k = 0; k < kAhead; ++k) read_operands(k);
    if constexpr (!kBf16 && Layout::kSharesScales) scales = share_chunk_scales<Layout, kActive>(rows, lane);
    if constexpr (!kBf16 && !Layout::kSharesScales) scales = chunk_scales<Layout, kActive>(rows, scale);
  }

  // What the results are to be multiplied with.
  __device__ __forceinline__ float by() const {
    return small_power_of_two(scales.largest - 127 - kShortResultBits);
  }

  // Groups kFirst to kEnd; all of them in that order.
  template <int kFirst, int kEnd>
  __device__ __forceinline__ void multiply(ShortResults<Layout>& results) {
#pragma unroll
    for (int k = kFirst; k < kEnd; ++k) {
#pragma unroll
      for (int n = 0; n < Layout::kHeads / 8; ++n) add_products(k, n, results);
      if (k + kAhead < kActive) read_operands(k + kAhead);
    }
  }

 private:
  // Of group k for heads 8n to 8n + 7.
  __device__ __forceinline__ void add_products(int k, int n, ShortResults<Layout>& results) const {
    const ShortOperands<Layout>& operands = a[k % kAhead];
    const int place = rows.place_of_weights(k, n);
    if constexpr (kBf16) {
      const Bf16Weights b = {read<uint2>(rows.shared + Layout::kWeightsHigh + place),
                             read<uint2>(rows.shared + Layout::kWeightsLow + place)};
      b.add_products(operands, n, results);
    } else {
      const auto weights = read<uint2>(rows.shared + Layout::kWeights + place);
      const uint2 by = scale_of(k);
      const uint2 b = {multiply_f16x2(weights.x, by.x), multiply_f16x2(weights.y, by.y)};
#pragma unroll
      for (int m = 0; m < kValueInstructions<Layout>; ++m) mma_f16(results[m][n], operands[m], b.x, b.y);
    }
  }

  __device__ __forceinline__ uint2 scale_of(int k) const {
    if constexpr (Layout::kSharesScales) {
      return read<uint2>(rows.shared + Layout::kValueScales +
                         rows.chunk / Layout::kChunksOfScale * Layout::kScalesOfChunk +
                         2 * (kGroupTokens * k + 4 * rows.c));
    } else {
      return scale[k];
    }
  }

  __device__ __forceinline__ void read_operands(int k) {
    if constexpr (kBf16) {
      rows.operands_bf16(k, a[k % kAhead]);
    } else {
      rows.operands_e4m3(k, a[k % kAhead]);
    }
  }
};

// For scales of any range (Worker::accumulate_spread()). Slow, and seldom needed.
template <typename Layout>
__device__ __forceinline__ float multiply_spread(const ValueRows<Layout>& rows, const ChunkScales& scales, int groups,
                                                 ShortResults<Layout>& results) {
  // Results are larger by 2^bits, so that products with small scales are normal numbers.
  const int32_t bits = min(max(scales.largest - 127 + 60, 0), 80);
  const float by = exp2_fast(static_cast<float>(bits - (scales.largest - 127)));
#pragma unroll 1
  for (int k = 0; k < groups; ++k) {
    ShortOperands<Layout> a;
    rows.operands_e4m3(k, a);
    convert_to_bf16(a);
    float scale[4];
#pragma unroll
    for (int x = 0; x < 4; ++x) scale[x] = rows.scale(k, x) * by;
#pragma unroll
    for (int n = 0; n < Layout::kHeads / 8; ++n) {
      const auto weights = read<uint2>(rows.shared + Layout::kWeights + rows.place_of_weights(k, n));
      const float product[4] = {low_f16(weights.x) * scale[0], high_f16(weights.x) * scale[1],
                                low_f16(weights.y) * scale[2], high_f16(weights.y) * scale[3]};
      const auto b = Bf16Weights::of(product);
#pragma unroll
      for (int m = 0; m < kValueInstructions<Layout>; ++m) b.add_product(a[m], results[m][n]);
    }
  }
  return small_power_of_two(scales.largest - 127 - bits - kShortResultBits);
}

}  // namespace flashmla::cuda
