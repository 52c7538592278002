// How each KV format lies in shared memory and becomes MMA operands.
//
// A tile is 4 or 8 groups of 16 tokens; a chunk is 64 dimensions. Both products have the tokens or the value
// dimensions on the M side of mma.m16n8k16 and the heads on the N side, so that few heads waste nothing.
//
// The order in which a contraction is summed is free, and so is the order of the rows of an operand. It is chosen so
// that a thread's bytes are contiguous and no two lanes of a load of V4 or V32 rows meet in a bank (in QK^T of the
// other formats two do):
//   QK^T  thread (g, c) = (lane / 4, lane % 4) takes dimensions 16c..16c+15 of a chunk, for operand rows g and g + 8.
//   PV    thread (g, c) takes 8 dimensions of a chunk (kept together by g), for the 4 tokens of operand rows 4c..4c+3.
// Row r of a group is token 4x + (c + 2x) % 4 with c = r / 4, x = r % 4. With rows 32 or 96 bytes (mod 128) apart,
// rows 2i and 2i + 1 then start 64 bytes apart in the banks, as do the tokens of the four c.
#pragma once

#include "flashmla/flashmla.h"
#include "kernels/cuda/ptx.cuh"

namespace flashmla::cuda {

constexpr int kGroupTokens = 16;
constexpr int kChunkDims = 64;
constexpr int kValueChunks = 8;

__device__ __forceinline__ int token_of_row(int row) {
  const int c = row >> 2;
  const int x = row & 3;
  return 4 * x + ((c + 2 * x) & 3);
}

template <typename T>
__device__ __forceinline__ T read(const uint8_t* address) {
  return *reinterpret_cast<const T*>(address);
}

template <typename T>
__device__ __forceinline__ void write(uint8_t* address, T value) {
  *reinterpret_cast<T*>(address) = value;
}

// A operands of one chunk for QK^T: 4 instructions of 16 dimensions, 4 registers each.
using ScoreOperands = uint32_t[4][4];
// A operands of one chunk and one group for PV: 4 instructions of 16 value dimensions.
using ValueOperands = uint32_t[4][4];

enum class Chunk {
  kScaledE4m3,  // one scale for the chunk
  kHalvesE4m3,  // one scale for each 32 dimensions
  kBf16,        // no scale
  kScaledE2m1   // one scale for each 16 dimensions, multiplied in before the product
};

// --- QK^T ------------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void convert_scores(const uint4& low, const uint4& high, ScoreOperands& a) {
  const uint32_t l[4] = {low.x, low.y, low.z, low.w};
  const uint32_t h[4] = {high.x, high.y, high.z, high.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    a[i][0] = e4m3x2_to_f16x2(l[i]);
    a[i][1] = e4m3x2_to_f16x2(h[i]);
    a[i][2] = e4m3x2_high_to_f16x2(l[i]);
    a[i][3] = e4m3x2_high_to_f16x2(h[i]);
  }
}

// `low`, `high`: the chunk's bytes in the rows of operand rows g and g + 8.
__device__ __forceinline__ void score_operands_e4m3(const uint8_t* low, const uint8_t* high, int c, ScoreOperands& a) {
  convert_scores(read<uint4>(low + 16 * c), read<uint4>(high + 16 * c), a);
}

// The first two instructions are dimensions 0..31, the others 32..63.
__device__ __forceinline__ void score_operands_halves(const uint8_t* low, const uint8_t* high, int c,
                                                      ScoreOperands& a) {
  const uint2 l0 = read<uint2>(low + 8 * c), l1 = read<uint2>(low + 32 + 8 * c);
  const uint2 h0 = read<uint2>(high + 8 * c), h1 = read<uint2>(high + 32 + 8 * c);
  convert_scores({l0.x, l0.y, l1.x, l1.y}, {h0.x, h0.y, h1.x, h1.y}, a);
}

__device__ __forceinline__ void score_operands_bf16(const uint8_t* low, const uint8_t* high, int c, ScoreOperands& a) {
  const uint4 l0 = read<uint4>(low + 32 * c), l1 = read<uint4>(low + 32 * c + 16);
  const uint4 h0 = read<uint4>(high + 32 * c), h1 = read<uint4>(high + 32 * c + 16);
  const uint32_t l[8] = {l0.x, l0.y, l0.z, l0.w, l1.x, l1.y, l1.z, l1.w};
  const uint32_t h[8] = {h0.x, h0.y, h0.z, h0.w, h1.x, h1.y, h1.z, h1.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    a[i][0] = l[2 * i];
    a[i][1] = h[2 * i];
    a[i][2] = l[2 * i + 1];
    a[i][3] = h[2 * i + 1];
  }
}

// E2M1 -> F16 of the nibbles 4k of both halves of `word` (k = 0..3), times 2^-14: the three magnitude bits become the
// low exponent bits and the first mantissa bit, which is right for the one subnormal, too.
__device__ __forceinline__ uint32_t e2m1_pair(uint32_t word, int k) {
  const uint32_t top = word << (12 - 4 * k);
  return (top & 0x80008000U) | ((top >> 3) & 0x0e000e00U);
}

// The exact F16 value of an E4M3 scale, in both halves.
__device__ __forceinline__ uint32_t e4m3_scale(uint8_t scale) {
  return e4m3x2_to_f16x2(scale * 0x0101U);
}

constexpr uint32_t kTwoTo14 = 0x74007400U;  // F16 2^14, twice

// Pairs are dimensions k and k + 4 of each 8: queries are stored in that order.
__device__ __forceinline__ void score_operands_e2m1(const uint8_t* low, const uint8_t* high, int c, uint8_t scale_low,
                                                    uint8_t scale_high, ScoreOperands& a) {
  const uint2 l = read<uint2>(low + 8 * c), h = read<uint2>(high + 8 * c);
  const uint32_t words[2][2] = {{l.x, l.y}, {h.x, h.y}};
  const uint32_t scales[2] = {e4m3_scale(scale_low), e4m3_scale(scale_high)};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const uint32_t bits = e2m1_pair(words[r & 1][i >> 1], 2 * (i & 1) + (r >> 1));
      a[i][r] = multiply_f16x2(multiply_f16x2(bits, kTwoTo14), scales[r & 1]);
    }
  }
}

// --- PV --------------------------------------------------------------------------------------------------------------

constexpr uint32_t kInterleaveLow = 0x5140;   // a0 b0 a1 b1
constexpr uint32_t kInterleaveHigh = 0x7362;  // a2 b2 a3 b3

// `words[x]`: 4 E4M3 of token x, twice: instructions 2u and 2u + 1 of `a` take words[x][u].
__device__ __forceinline__ void convert_values(const uint2 (&words)[4], ValueOperands& a) {
#pragma unroll
  for (int m = 0; m < 4; ++m) {
    const uint32_t order = (m & 1) == 0 ? kInterleaveLow : kInterleaveHigh;
    const uint32_t first = __byte_perm(m < 2 ? words[0].x : words[0].y, m < 2 ? words[1].x : words[1].y, order);
    const uint32_t second = __byte_perm(m < 2 ? words[2].x : words[2].y, m < 2 ? words[3].x : words[3].y, order);
    a[m][0] = e4m3x2_to_f16x2(first);
    a[m][1] = e4m3x2_high_to_f16x2(first);
    a[m][2] = e4m3x2_to_f16x2(second);
    a[m][3] = e4m3x2_high_to_f16x2(second);
  }
}

// `rows[x]`: the chunk's bytes of token x. Instruction m: dimensions 8g + 2m and 8g + 2m + 1.
__device__ __forceinline__ void value_operands_e4m3(const uint8_t* const (&rows)[4], int g, ValueOperands& a) {
  uint2 words[4];
#pragma unroll
  for (int x = 0; x < 4; ++x) words[x] = read<uint2>(rows[x] + 8 * g);
  convert_values(words, a);
}

// Instruction m: dimensions 32 (m / 2) + 4g + 2 (m % 2) and the next.
__device__ __forceinline__ void value_operands_halves(const uint8_t* const (&rows)[4], int g, ValueOperands& a) {
  uint2 words[4];
#pragma unroll
  for (int x = 0; x < 4; ++x) words[x] = {read<uint32_t>(rows[x] + 4 * g), read<uint32_t>(rows[x] + 32 + 4 * g)};
  convert_values(words, a);
}

__device__ __forceinline__ void value_operands_bf16(const uint8_t* const (&rows)[4], int g, ValueOperands& a) {
  uint4 words[4];
#pragma unroll
  for (int x = 0; x < 4; ++x) words[x] = read<uint4>(rows[x] + 16 * g);
  const uint32_t w[4][4] = {{words[0].x, words[0].y, words[0].z, words[0].w},
                            {words[1].x, words[1].y, words[1].z, words[1].w},
                            {words[2].x, words[2].y, words[2].z, words[2].w},
                            {words[3].x, words[3].y, words[3].z, words[3].w}};
#pragma unroll
  for (int m = 0; m < 4; ++m) {
    a[m][0] = __byte_perm(w[0][m], w[1][m], 0x5410);
    a[m][1] = __byte_perm(w[0][m], w[1][m], 0x7632);
    a[m][2] = __byte_perm(w[2][m], w[3][m], 0x5410);
    a[m][3] = __byte_perm(w[2][m], w[3][m], 0x7632);
  }
}

// `scales[x]`: the E4M3 scale of token x for dimensions 8g..8g+7.
__device__ __forceinline__ void value_operands_e2m1(const uint8_t* const (&rows)[4], int g, const uint8_t (&scales)[4],
                                                    ValueOperands& a) {
  uint32_t words[4];
#pragma unroll
  for (int x = 0; x < 4; ++x) words[x] = read<uint32_t>(rows[x] + 4 * g);
#pragma unroll
  for (int pair = 0; pair < 2; ++pair) {
    const uint32_t both = e4m3x2_to_f16x2(scales[2 * pair] | scales[2 * pair + 1] << 8);
#pragma unroll
    for (int upper = 0; upper < 2; ++upper) {  // dimensions 4 upper .. 4 upper + 3
      const uint32_t nibbles = __byte_perm(words[2 * pair], words[2 * pair + 1], upper == 0 ? 0x5410 : 0x7632);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const uint32_t value = multiply_f16x2(multiply_f16x2(e2m1_pair(nibbles, k), kTwoTo14), both);
        a[2 * upper + (k >> 1)][2 * pair + (k & 1)] = value;
      }
    }
  }
}

// --- formats ---------------------------------------------------------------------------------------------------------

// kRowBytes      of one token in global memory, copied as they are
// kRowStride     of one token in shared memory (32 or 96 mod 128)
// kScaleBytes    of one token behind the page's data rows; 0: none, or inside the row
// kStoredScales  bytes of scales of a token in shared memory, apart from its row
// kScoreChunks   chunks of a key
// kStages        tiles in shared memory
// kSecondHalf    where chunk 4 begins
// kSecondPart    where the rest of the row begins, behind chunk 7 or the scales
// kInnerScales   4 FP32 scales in the row, one for each two chunks; -1: none
// kBf16Chunk     the chunk in BF16 and its place in the row; -1: none. All others are `kChunk`.
struct Record {
  static constexpr int kBf16Chunk = -1, kBf16Offset = 0;
  static constexpr int kInnerScales = -1;
};
struct V4 : Record {
  static constexpr int kRowBytes = 576, kRowStride = 608, kScaleBytes = 8, kScoreChunks = 8, kStages = 2;
  static constexpr int kBf16Chunk = 7, kBf16Offset = 448;
  static constexpr Chunk kChunk = Chunk::kScaledE4m3;
  static constexpr int kSecondHalf = 256, kSecondPart = 512;
  static constexpr int kStoredScales = 8;
};
struct V32 : Record {
  static constexpr int kRowBytes = 656, kRowStride = 672, kScaleBytes = 0, kScoreChunks = 9, kStages = 2;
  static constexpr int kBf16Chunk = 8, kBf16Offset = 528;
  static constexpr Chunk kChunk = Chunk::kScaledE4m3;
  static constexpr int kSecondHalf = 256, kSecondPart = 528, kInnerScales = 512;
  static constexpr int kStoredScales = 16;
};
struct V41 : Record {
  static constexpr int kRowBytes = 512, kRowStride = 544, kScaleBytes = 16, kScoreChunks = 8, kStages = 2;
  static constexpr Chunk kChunk = Chunk::kHalvesE4m3;
  static constexpr int kSecondHalf = 256, kSecondPart = 512;
  static constexpr int kStoredScales = 16;
};
struct V41Fp4 : Record {
  static constexpr int kRowBytes = 256, kRowStride = 288, kScaleBytes = 32, kScoreChunks = 8, kStages = 4;
  static constexpr Chunk kChunk = Chunk::kScaledE2m1;
  static constexpr int kSecondHalf = 128, kSecondPart = 256;
  static constexpr int kStoredScales = 32;
};
struct Dense576 : Record {
  static constexpr int kRowBytes = 1152, kRowStride = 1184, kScaleBytes = 0, kScoreChunks = 9, kStages = 2;
  static constexpr Chunk kChunk = Chunk::kBf16;
  static constexpr int kSecondHalf = 512, kSecondPart = 1024;
  static constexpr int kStoredScales = 0;
};
struct Dense512 : Record {
  static constexpr int kRowBytes = 1024, kRowStride = 1056, kScaleBytes = 0, kScoreChunks = 8, kStages = 2;
  static constexpr Chunk kChunk = Chunk::kBf16;
  static constexpr int kSecondHalf = 512, kSecondPart = 1024;
  static constexpr int kStoredScales = 0;
};

// FP8 formats whose scales are multiplied onto scores and weights.
template <typename Format>
constexpr bool kHasScales = Format::kChunk == Chunk::kScaledE4m3 || Format::kChunk == Chunk::kHalvesE4m3;
// Scales that the weights of a token are multiplied with, one after another in memory.
template <typename Format>
constexpr int kWeightScales = !kHasScales<Format>                    ? 0
                              : Format::kChunk == Chunk::kHalvesE4m3 ? 16
                                                                     : 8;
// Rows of BF16 alone, which is what dense decode reads.
template <typename Format>
constexpr bool kDense = Format::kChunk == Chunk::kBf16;

}  // namespace flashmla::cuda
