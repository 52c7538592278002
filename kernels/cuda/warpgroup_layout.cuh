// Shared memory of the warpgroup kernel, and who does what in it.
//
// Two warpgroups compute, kCopyWarps warps copy. Groups of 16 tokens lie in a ring of slots, each with a barrier for
// "filled" and one for "free", so that the copying warps run ahead. In QK^T each computing warp has a group on its 16
// rows of the M side of wgmma. In PV
//   up to 32 heads   a warpgroup is a team of its own: it takes every second tile of 4 groups and all value dimensions
//   64 heads         the warpgroups are one team: tiles of 8 groups, half of the value dimensions each
#pragma once

#include "kernels/cuda/shared_layout.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace flashmla::cuda {

constexpr int kCopyWarps = 4;
constexpr int kWarpgroupThreads = kThreads + 32 * kCopyWarps;
constexpr int kMostSharedBytes = 227 * 1024;
constexpr int kNoUnits = -126;  // of a chunk before its first scale

template <typename RecordFormat, int kBlockHeads>
struct WarpgroupLayout {
  using Format = RecordFormat;
  static constexpr int kHeads = kBlockHeads;
  static constexpr int kTeams = kHeads <= 32 ? 2 : 1;
  static constexpr int kTeamWarps = kWarps / kTeams;
  static constexpr int kGroups = kTeamWarps;                 // of a tile
  static constexpr int kTileTokens = kWarps * kGroupTokens;  // that the block works on at a time
  static constexpr int kQueryDims = Format::kScoreChunks * kChunkDims;
  static constexpr bool kHasBf16Values = Format::kBf16Chunk >= 0 && Format::kBf16Chunk < kValueChunks;
  static constexpr int kQueryBytes = Format::kScoreChunks * kHeads * kSwizzledRow;  // [chunk][head]
  static constexpr int kHalfBytes = kHeads * kSwizzledRow;                          // weights of 64 tokens
  static constexpr int kWeightBytes = 2 * kHalfBytes;                               // of all teams: [64 tokens][head]
  static constexpr int kSlotBytes = kGroupTokens * Format::kRowStride;
  static constexpr int kSlotScales = kGroupTokens * Format::kStoredScales;
  static constexpr int kScaleRow = 2 * kGroupTokens;  // bytes of the F16 scales of a group

  static constexpr int kSmallBytes = kValueChunks * kWarps * kScaleRow + kTeams * kHeads * 16 + kWarps * kHeads * 8 +
                                     kHeads * (8 + 4) + 2 * 4 * kValueChunks + 10 * 4 * kWarps + 128;
  static constexpr int kSlots =
      (kMostSharedBytes - kQueryBytes - kWeightBytes * (kHasBf16Values ? 3 : 1) - kSmallBytes) /
      (kSlotBytes + kSlotScales + 4 + 16);

  static constexpr int kQuery = 0;  // F16, BF16 in a BF16 chunk
  static constexpr int kWeights = kQuery + kQueryBytes;
  static constexpr int kWeightsBf16 = kWeights + kWeightBytes;
  static constexpr int kWeightsLow = kWeightsBf16 + kWeightBytes;  // what BF16 lacks
  static constexpr int kRows = kWeightsBf16 + (kHasBf16Values ? 2 * kWeightBytes : 0);
  static constexpr int kScales = kRows + kSlots * kSlotBytes;
  static constexpr int kValueScales = kScales + kSlots * kSlotScales;               // [chunk][warp's group][c][x] F16
  static constexpr int kMaxima = kValueScales + kValueChunks * kWarps * kScaleRow;  // [warp][head] FP32
  static constexpr int kWarpSums = kMaxima + kWarps * kHeads * 4;                   // [warp][head] FP32
  static constexpr int kFactors = kWarpSums + kWarps * kHeads * 4;                  // [head] 2 x FP32
  static constexpr int kReference = kFactors + kHeads * 8;                          // [team][head] FP32
  static constexpr int kChange = kReference + kTeams * kHeads * 4;                  // [team][head] FP32
  static constexpr int kSummaries = kChange + kTeams * kHeads * 4;                  // [team][head] 2 x FP32
  static constexpr int kSinks = kSummaries + kTeams * kHeads * 8;                   // [head] FP32
  static constexpr int kUnits = kSinks + kHeads * 4;                 // [team][chunk] exponents of powers of two
  static constexpr int kOwnUnits = kUnits + 2 * 4 * kValueChunks;    // [warp][set][instruction] the same, FP32
  static constexpr int kSpread = kOwnUnits + kWarps * 8 * 4;         // [warp] 0 or 1
  static constexpr int kNextSpread = kSpread + 4 * kWarps;           // [warp] the same, of the tile that follows
  static constexpr int kValid = kNextSpread + 4 * kWarps;            // [slot]
  static constexpr int kFilled = (kValid + 4 * kSlots + 7) / 8 * 8;  // [slot] barriers
  static constexpr int kFree = kFilled + 8 * kSlots;
  static constexpr int kPlace =
      (kFree + 8 * kSlots + 15) / 16 * 16;          // what the block works on: needed again at the end
  static constexpr int kDescriptors = kPlace + 48;  // of the queries, of each team's weights; then the block's groups
  static constexpr int kBytes = kDescriptors + 16;

  // Where a block brings its own results together: [team][head] 512 FP32, padded so that heads
  // differ in banks.
  static constexpr int kCollected = 0;
  static constexpr int kCollectedStride = 4 * (kValueChunks * kChunkDims + 4);

  // Stores the pairs of dimensions 8p .. 8p + 7 of head h where score_operands_*() want them: instruction i of a chunk
  // has pieces 2i and 2i + 1, thread c the pairs 4c of both.
  static __device__ __forceinline__ void write_query(uint8_t* shared, int h, int p, const uint32_t (&pairs)[4]) {
    uint8_t* chunk = shared + kQuery + (p / 8) * kHalfBytes;
#pragma unroll
    for (int k = 0; k < 4; ++k) write(chunk + swizzled(h, 4 * (p & 1) + k) + 4 * ((p & 7) >> 1), pairs[k]);
  }

  // Where the 16 bytes of dimensions 8p .. 8p + 7 of head h are brought to first.
  static __device__ __forceinline__ int raw_query(int h, int p) {
    return kQuery + (p / 8) * kHalfBytes + h * kSwizzledRow + 16 * (p & 7);
  }

  static_assert(kSlots >= kWarps);
  static_assert(kWeights % 1024 == 0 && kWeightsBf16 % 1024 == 0 && kRows % 16 == 0 && kScales % 16 == 0);
  static_assert(kMaxima % 16 == 0 && kFactors % 16 == 0 && kSummaries % 16 == 0);
  static_assert(kCollected + kTeams * kHeads * kCollectedStride <= kScales);
  static_assert(kBytes <= kMostSharedBytes);
};

// Operand row q of a group in the warpgroup kernel: in PV thread c has rows 2c, 2c + 1, 8 + 2c and 8 + 2c + 1 as its
// four tokens x. The tokens are those of token_of_row(4c + x).
__device__ __forceinline__ int token_of_operand(int q) {
  return token_of_row(4 * ((q & 7) >> 1) + (q & 1) + 2 * (q >> 3));
}

}  // namespace flashmla::cuda
