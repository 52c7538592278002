// Shared memory of the warpgroup kernel, and who does what in it.
//
// kCopyWarps warps copy, the others compute. Groups of 16 tokens lie in a ring of slots (ring.h), each with a
// barrier for "filled" and one for "free", so that the copying warps run ahead, into the block's next row, too. In QK^T
// each computing warp has a group on its 16 rows of the M side of wgmma. In PV
//   up to 32 heads   each of two warpgroups is a team of its own: it takes every other tile of 4 groups and all value
//                    dimensions
//   64 heads         two warpgroups are one team: tiles of 8 groups, half of the value dimensions each
#pragma once

#include "kernels/cuda/ring.h"
#include "kernels/cuda/shared_layout.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace flashmla::cuda {

constexpr int kCopyWarps = 4;
constexpr int kNoUnits = -126;  // of a chunk before its first scale

template <typename RecordFormat, int kBlockHeads>
struct WarpgroupLayout {
  using Format = RecordFormat;
  static constexpr int kHeads = kBlockHeads;
  static constexpr int kTeams = kHeads <= 32 ? 2 : 1;
  static constexpr int kTeamWarps = kHeads <= 32 ? 4 : 8;
  static constexpr int kGroups = kTeamWarps;  // of a tile
  static constexpr int kWorkWarps = kTeams * kTeamWarps;
  static constexpr int kWorkThreads = 32 * kWorkWarps;
  static constexpr int kThreads = kWorkThreads + 32 * kCopyWarps;
  static constexpr int kCopiers = kGroups / kPair;  // that have something to do
  // Of a thread, while it copies and while it computes.
  static constexpr int kCopyRegisters = kHeads <= 16 ? 56 : 40;
  static constexpr int kWorkRegisters = registers_taken(kThreads, kWorkThreads, kCopyRegisters);
  static constexpr int kQueryDims = Format::kScoreChunks * kChunkDims;
  static constexpr bool kHasBf16Values = Format::kBf16Chunk >= 0 && Format::kBf16Chunk < kValueChunks;
  static constexpr int kQueryBytes = Format::kScoreChunks * kHeads * kSwizzledRow;  // [chunk][head]
  static constexpr int kHalfBytes = kHeads * kSwizzledRow;                          // weights of 64 tokens
  static constexpr int kWeightBytes = kWorkWarps / 4 * kHalfBytes;                  // of all teams: [64 tokens][head]
  // Where teams bring their results together (warpgroup_finish.cuh): an owner's share from each other team.
  static constexpr int kTurnBytes = kTeams * (kTeams - 1) * kTeamWarps * 32 * 16;
  static constexpr int kAllWeightBytes = kWeightBytes * (kHasBf16Values ? 3 : 1);
  static constexpr int kExchangeBytes = kAllWeightBytes > kTurnBytes ? kAllWeightBytes : kTurnBytes;
  static constexpr int kSlotBytes = kGroupTokens * Format::kRowStride;
  static constexpr int kSlotScales = kGroupTokens * Format::kStoredScales;
  static constexpr int kScaleRow = 2 * kGroupTokens;  // bytes of the F16 scales of a group

  static constexpr int kMostSharedBytes = 227 * 1024;
  static constexpr int kScaleTable = kValueChunks * kWorkWarps * kScaleRow;
  static constexpr int kSmallBytes = 2 * kScaleTable + kTeams * kHeads * 12 + kWorkWarps * kHeads * 8 +
                                     kHeads * (8 + 8 + 8 + 4) + kTeams * 4 * kValueChunks + 9 * 4 * kWorkWarps + 128;
  static constexpr int kSlots =
      (kMostSharedBytes - kQueryBytes - kExchangeBytes - kSmallBytes) / (kSlotBytes + kSlotScales + 4 + 16);

  __host__ __device__ static constexpr Ring ring() { return {kTeams, kGroups, kSlots, kCopiers}; }

  static constexpr int kQuery = 0;  // F16, BF16 in a BF16 chunk
  static constexpr int kWeights = kQuery + kQueryBytes;
  static constexpr int kWeightsBf16 = kWeights + kWeightBytes;
  static constexpr int kWeightsLow = kWeightsBf16 + kWeightBytes;  // what BF16 lacks
  static constexpr int kExchange = kWeights;                       // behind a row's last tile
  static constexpr int kRows = kExchange + kExchangeBytes;
  static constexpr int kScales = kRows + kSlots * kSlotBytes;
  static constexpr int kValueScales = kScales + kSlots * kSlotScales;   // [chunk][warp's group][c][x] F16
  static constexpr int kMaxima = kValueScales + 2 * kScaleTable;        // [warp][head] FP32
  static constexpr int kWarpSums = kMaxima + kWorkWarps * kHeads * 4;   // [warp][head] FP32
  static constexpr int kFactors = kWarpSums + kWorkWarps * kHeads * 4;  // [head] 2 x FP32
  static constexpr int kReference = kFactors + kHeads * 8;              // [team][head] FP32
  static constexpr int kChange = kReference + kTeams * kHeads * 4;      // [team][head] FP32
  static constexpr int kShares = kChange + kTeams * kHeads * 4;         // [team][head] FP32
  static constexpr int kSummaries = kShares + kTeams * kHeads * 4;      // [head] 2 x FP32
  static constexpr int kOutputs = kSummaries + kHeads * 8;              // [head] where its results go; null: nowhere
  static constexpr int kSinks = kOutputs + kHeads * 8;                  // [head] FP32
  static constexpr int kUnits = kSinks + kHeads * 4;                    // [team][chunk] exponents of powers of two
  static constexpr int kOwnUnits = kUnits + kTeams * 4 * kValueChunks;  // [warp][set][instruction] the same, FP32
  static constexpr int kSpread = kOwnUnits + kWorkWarps * 8 * 4;        // [warp] 0 or 1
  static constexpr int kValid = kSpread + 4 * kWorkWarps;               // [slot]
  static constexpr int kFilled = (kValid + 4 * kSlots + 7) / 8 * 8;     // [slot] barriers
  static constexpr int kFree = kFilled + 8 * kSlots;
  static constexpr int kPlace = (kFree + 8 * kSlots + 15) / 16 * 16;  // of the row: needed again at its end
  // What is read again in each tile: descriptors of the queries and of the weights, the row's first group and the one
  // behind its last, of all groups that the block copies.
  static constexpr int kTileWords = kPlace + 32;
  static constexpr int kCluster = kPlace + 24;
  static constexpr int kBytes = kTileWords + 16;

  // Where the blocks of a cluster read each other's results: [head] 512 FP32, padded so that heads differ in banks.
  static constexpr int kCollected = kTeams > 1 ? kRows : 0;
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

  static_assert(kWeights % 1024 == 0 && kWeightsBf16 % 1024 == 0 && kRows % 16 == 0 && kScales % 16 == 0);
  static_assert(kMaxima % 16 == 0 && kFactors % 16 == 0 && kSummaries % 16 == 0 && kSpread % 16 == 0);
  static_assert(kCollected + kHeads * kCollectedStride <= kScales);
  static_assert(kBytes <= kMostSharedBytes);
};

template <typename Layout>
__device__ __forceinline__ void sync_work_warps() {
  named_barrier(0, Layout::kWorkThreads);
}

// Operand row q of a group in the warpgroup kernel: in PV thread c has rows 2c, 2c + 1, 8 + 2c and 8 + 2c + 1 as its
// four tokens x. The tokens are those of token_of_row(4c + x).
__device__ __forceinline__ int token_of_operand(int q) {
  return token_of_row(4 * ((q & 7) >> 1) + (q & 1) + 2 * (q >> 3));
}

}  // namespace flashmla::cuda
