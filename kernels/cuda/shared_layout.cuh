// Where everything lies in a block's shared memory.
#pragma once

#include "kernels/cuda/arguments.h"
#include "kernels/cuda/record.cuh"

namespace flashmla::cuda {

constexpr int kWarps = 8;  // of a block; in PV each has a chunk
constexpr int kThreads = 32 * kWarps;

// A barrier among these warps; there may be others in the block.
__device__ __forceinline__ void sync_workers() {
  named_barrier(0, kThreads);
}

// How the warps share a tile in QK^T.
//   8 groups                      each warp has a group: the least work per token, where there are many
//   4 groups, up to 16 heads      two warps have a group and a half of the chunks each, and add up their scores: the
//                                 shortest way from a token to its weight, where there are few
//   4 groups, more heads          two warps have a group and a half of the heads each
template <int kGroups>
constexpr int kSharers = kWarps / kGroups;  // warps that have the same group
template <int kHeads, int kGroups>
constexpr bool kHalvesChunks = kSharers<kGroups> > 1 && kHeads <= 16;
template <int kHeads, int kGroups>
constexpr int kHeadParts = kHeads > 16 ? kSharers<kGroups> : 1;

// kHeads: heads of a block; kGroups: groups of 16 tokens in a tile.
template <typename RecordFormat, int kBlockHeads, int kTileGroups>
struct SharedLayout {
  using Format = RecordFormat;
  static constexpr int kHeads = kBlockHeads;
  static constexpr int kGroups = kTileGroups;
  static constexpr int kStages = Format::kStages;
  static constexpr int kTileTokens = kGroups * kGroupTokens;
  static constexpr int kQueryDims = Format::kScoreChunks * kChunkDims;
  // Rows of queries: 16 bytes (mod 128) apart, 64 where a thread reads 16 bytes of a row at a time.
  static constexpr int kQueryStride = 2 * kQueryDims + (Format::kChunk == Chunk::kHalvesE4m3 ? 64 : 16);
  static constexpr bool kHasBf16Values = kDense<Format> || (Format::kBf16Chunk >= 0 && Format::kBf16Chunk < 8);
  static constexpr int kWeightBytes = kGroups * kHeads * 2 * kGroupTokens;  // of one buffer

  static constexpr int kRows = 0;  // [stage][token] raw records
  static constexpr int kRowsBytes = kTileTokens * Format::kRowStride;
  static constexpr int kSecondTile = kRows + kRowsBytes;
  static constexpr int kSecondTileBytes = kRowsBytes;
  static constexpr int kQuery = kRows + kStages * kRowsBytes;            // [head] F16, BF16 in a BF16 chunk
  static constexpr int kExchangeBytes = kQuery + kHeads * kQueryStride;  // all up to here is free at the end
  static constexpr int kScales = kExchangeBytes;  // [stage][sharer][token] raw scales: each warp has a copy of its own
  static constexpr int kScalesBytes = kTileTokens * Format::kStoredScales;
  static constexpr int kScalesOfStage = kSharers<kGroups> * kScalesBytes;
  static constexpr int kWeights = kScales + kStages * kScalesOfStage;  // [2][group][head][row] F16
  static constexpr int kShares = kWeights;                             // of the sources, when results are merged
  static constexpr int kWeightsHigh = kWeights + (kDense<Format> ? 0 : 2 * kWeightBytes);     // the same in BF16
  static constexpr int kWeightsLow = kWeightsHigh + (kHasBf16Values ? 2 * kWeightBytes : 0);  // and what it lacks
  static constexpr int kGroupScales = kWeightsLow + (kHasBf16Values ? 2 * kWeightBytes : 0);
  static constexpr int kWeightScalesBytes = kGroups * kWeightScales<Format> * 2 * kGroupTokens;
  static constexpr int kMaxima = kGroupScales + 2 * kWeightScalesBytes;  // [2][head][group] FP32
  static constexpr int kMaximaBytes = kHeads * kGroups * 4;
  static constexpr int kScaleMaxima = kMaxima + 2 * kMaximaBytes;      // [2][group] FP32
  static constexpr int kScaleMinima = kScaleMaxima + 2 * kGroups * 4;  // [2][group] FP32
  static constexpr int kFactors = kScaleMinima + 2 * kGroups * 4;      // [head] 2 x FP32
  // While there are tokens: scores of the second half of the chunks, [group][8 heads][lane] 4 x FP32. After that
  // [group][head] 2 x FP32.
  static constexpr int kScores = kFactors + kHeads * 8;
  static constexpr int kScoresBytes = kHalvesChunks<kHeads, kGroups> ? kGroups * (kHeads / 8) * 32 * 16 : 0;
  static constexpr int kSums = kScores;
  static constexpr int kSumsBytes = kGroups * kHeads * 8;
  static constexpr int kReferences = kFactors;  // [head] 2 x FP32, when the factors are no longer needed
  static constexpr int kArrived = kScores + (kScoresBytes > kSumsBytes ? kScoresBytes : kSumsBytes);  // a barrier
  static constexpr int kSinks = kArrived + 8;                                                         // [head] FP32
  static constexpr int kBytes = kSinks + kHeads * 4;

  static constexpr int kQueryBatch = kHeads >= 2 * kWarps ? 2 : 1;  // heads that a warp loads at a time
  // Stores the pairs of dimensions 8p .. 8p + 7 of head h.
  static __device__ __forceinline__ void write_query(uint8_t* shared, int h, int p, const uint32_t (&pairs)[4]) {
    write(shared + kQuery + h * kQueryStride + 16 * p, uint4{pairs[0], pairs[1], pairs[2], pairs[3]});
  }

  static_assert(kQuery % 16 == 0 && kScales % 16 == 0 && kWeights % 16 == 0 && kMaxima % 16 == 0 && kArrived % 8 == 0);
  static_assert(kHeads * kValueChunks * kChunkDims * 4 <= kExchangeBytes,
                "merging happens where rows and queries were");
  static_assert(kBytes <= 227 * 1024);
};

}  // namespace flashmla::cuda
