// Where everything lies in the shared memory of a block that has one tile of tokens and is done.
#pragma once

#include <algorithm>

#include "kernels/cuda/arguments.h"
#include "kernels/cuda/record.cuh"

namespace flashmla::cuda {

// kBlockHeads: heads of a block, 8 or 16; kMostGroups: groups of 16 tokens that it has room for, 4 to 16.
template <typename RecordFormat, int kBlockHeads, int kMostGroups>
struct ShortLayout {
  using Format = RecordFormat;
  static constexpr int kHeads = kBlockHeads;
  static constexpr int kGroups = kMostGroups;
  // A warp has a head in the softmax, if there are not more warps than heads. With 8 of them it has a chunk of 64
  // dimensions of every token in both products. With 16 it has two chunks of every fourth group of tokens in QK^T, and
  // half a chunk of every token in PV.
  static constexpr int kMergeWarps = kGroups > 4 ? 16 : 8;
  static constexpr int kBlockThreads = 32 * kMergeWarps;
  static constexpr int kWarpsOfChunk = kMergeWarps / kValueChunks;
  // Eight warps do both, or, of sixteen, the first half brings tokens while the other one converts queries.
  static constexpr int kCopyWarps = 8;
  static constexpr int kQueryWarps = 8;
  static constexpr int kFirstQueryWarp = kMergeWarps - kQueryWarps;
  static __device__ __forceinline__ bool brings_tokens(int warp) {
    return kFirstQueryWarp == 0 || warp < kFirstQueryWarp;
  }
  static __device__ __forceinline__ bool converts_queries(int warp) {
    return kFirstQueryWarp == 0 || warp >= kFirstQueryWarp;
  }
  static constexpr int kScoreArrays = kWarpsOfChunk == 1 ? kValueChunks : kValueChunks / 2;
  static constexpr int kScoreSharers = kMergeWarps / kScoreArrays;  // warps that share the groups
  // Chunks in BF16 take other instructions: their warps do not share a quarter of the multiprocessor.
  static __device__ __forceinline__ int score_array(int warp) {
    return (kWarpsOfChunk == 1 ? warp : warp + warp / kScoreArrays) % kScoreArrays;
  }
  static __device__ __forceinline__ int half_of_warp(int warp) { return warp / kValueChunks; }
  static __device__ __forceinline__ int chunk_of_warp(int warp) {
    return (warp + 2 * half_of_warp(warp)) % kValueChunks;
  }
  static constexpr int kTileTokens = kGroups * kGroupTokens;
  static constexpr int kQueryDims = Format::kScoreChunks * kChunkDims;
  static constexpr int kQueryStride = 2 * kQueryDims + 16;
  static constexpr bool kHasBf16Values = Format::kBf16Chunk < kValueChunks;
  static constexpr bool kScalesInRows = Format::kInnerScales >= 0;
  static constexpr int kWeightBytes = kGroups * kHeads * 2 * kGroupTokens;
  // Where two warps share a chunk they share its scales for PV, too.
  static constexpr bool kSharesScales = kWarpsOfChunk == 2;
  static constexpr int kChunksOfScale = kScalesInRows ? 2 : 1;
  static constexpr int kScalesOfChunk = 2 * kTileTokens;
  static constexpr int kValueScalesBytes = kSharesScales ? kValueChunks / kChunksOfScale * kScalesOfChunk : 0;
  static constexpr int kScoreStride = kTileTokens + 4;  // of heads, FP32: a warp's stores meet in no bank
  // Results in pieces of 4 dimensions: [chunk][head][16]. Block r of n has those from r / n to (r + 1) / n of all.
  static constexpr int kQuads = kHeads * kValueChunks * kChunkDims / 4;
  // Of the pieces of one source, from kFixedSplits sources on; fewer have what there is.
  static constexpr int kFixedSplits = 8;
  static constexpr int kSourceBytes = kQuads / kFixedSplits * 16;

  // Groups whose tokens are waited for together, so that the first ones are scored while others are on their way.
  static constexpr int kStepGroups = 4;
  static constexpr int kSteps = (kGroups + kStepGroups - 1) / kStepGroups;

  static constexpr int kRows = 0;                                          // [token] raw records
  static constexpr int kQuery = kRows + kTileTokens * Format::kRowStride;  // [head] F16, BF16 in the BF16 chunk
  static constexpr int kQueryBytes = kHeads * kQueryStride;
  static constexpr int kScalesBytes = kScalesInRows ? 0 : kValueChunks * kTileTokens;
  static constexpr int kScoreBytes = kScoreArrays * kHeads * kScoreStride * 4;
  // Where there is no room for more.
  static constexpr int kMostSplits = kGroups > 10 ? 8 : kMaxSplits;
  static constexpr int kResultBytes = std::max(16 * (kQuads + std::min(kMostSplits, kFixedSplits)),
                                               kMostSplits < kFixedSplits ? 0 : kMostSplits * kSourceBytes);
  static constexpr int kMostBytes = 227 * 1024;
  static constexpr int kSmallBytes =  // of what lies behind
      kHeads * kMostSplits * 12 + kHeads * 8 + kCopyWarps * 4 + 8 * kSteps + 16 + 8;
  // Results come where queries were, if there is no room for both.
  static constexpr bool kResultsOverQuery = kQuery + kQueryBytes + kScalesBytes +
                                                kWeightBytes * (kHasBf16Values ? 3 : 1) + kValueScalesBytes +
                                                kScoreBytes + kResultBytes + kSmallBytes >
                                            kMostBytes;
  static constexpr int kScales =  // [chunk][row] UE8M0, if not in the rows
      kQuery + (kResultsOverQuery ? std::max(kQueryBytes, kResultBytes) : kQueryBytes);
  static constexpr int kWeights = kScales + kScalesBytes;                                 // [group][head][row] F16
  static constexpr int kWeightsHigh = kWeights + kWeightBytes;                            // the same in BF16
  static constexpr int kWeightsLow = kWeightsHigh + (kHasBf16Values ? kWeightBytes : 0);  // and what it lacks
  static constexpr int kValueScales = kWeightsLow + (kHasBf16Values ? kWeightBytes : 0);  // [scale][row] F16
  static constexpr int kScores = kValueScales + kValueScalesBytes;                        // [array][head][row] FP32
  static constexpr int kResults = kResultsOverQuery ? kQuery : kScores + kScoreBytes;  // [source][own piece] 4 x FP32
  static constexpr int kSummaries =  // [head][source] {maximum, sum} FP32
      kScores + kScoreBytes + (kResultsOverQuery ? 0 : kResultBytes);
  static constexpr int kShares = kSummaries + kHeads * kMostSplits * 8;  // [head][source] FP32
  static constexpr int kFactors = kShares + kHeads * kMostSplits * 4;    // [head] 2 x FP32
  static constexpr int kValid = kFactors + kHeads * 8;                   // [copying warp] tokens that are there
  static constexpr int kTokenGroups = kValid + kCopyWarps * 4;           // how many there are
  static constexpr int kCopied = kTokenGroups + 8;                       // [step] barriers
  static constexpr int kSummarized = kCopied + 8 * kSteps;               // a barrier
  static constexpr int kArrived = kSummarized + 8;                       // a barrier
  static constexpr int kBytes = kArrived + 8;

  // Stores the pairs of dimensions 8p .. 8p + 7 of head h.
  static __device__ __forceinline__ void write_query(uint8_t* shared, int h, int p, const uint32_t (&pairs)[4]) {
    write(shared + kQuery + h * kQueryStride + 16 * p, uint4{pairs[0], pairs[1], pairs[2], pairs[3]});
  }

  static_assert(Format::kChunk == Chunk::kScaledE4m3 && Format::kBf16Chunk == Format::kScoreChunks - 1);
  static_assert(kQuery % 16 == 0 && kScales % 16 == 0 && kWeights % 16 == 0 && kScores % 16 == 0);
  static_assert(kResults % 16 == 0 && kSummaries % 16 == 0 && kShares % 16 == 0 && kCopied % 8 == 0);
  static_assert(kBytes <= kMostBytes && kBytes == kSummaries + kSmallBytes);
};

}  // namespace flashmla::cuda
