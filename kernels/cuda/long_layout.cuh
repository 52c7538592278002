// Shared memory of the kernel for many tokens, and who does what in it.
//
// Eight computing warps are a team. Two teams share a row, and add up their results at its end, or two blocks share a
// multiprocessor, each with a team and rows of its own. A tile is four groups of 16 tokens; for each team there are two
// stages of them and two warps that copy, so that other tiles are copied, those of the block's next row, too, while one
// is worked on. In QK^T two warps have a group, half of the chunks each, and end up with half of its tokens each; in PV
// a warp has a chunk of all tokens.
//
// Barriers of a stage tell the parity of a round alone. The tile that was in a stage before was worked on by the team
// that now waits for it, or is of a row that all teams have left; and it was copied by the warps that now copy.
#pragma once

#include "kernels/cuda/shared_layout.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace flashmla::cuda {

template <typename RecordFormat, int kBlockHeads, int kBlockTeams>
struct LongLayout {
  using Format = RecordFormat;
  static constexpr int kHeads = kBlockHeads;
  static constexpr int kTeams = kBlockTeams;
  static constexpr int kBlocksPerSm = 2 / kTeams;
  // One team with 16 heads is for many rows, and good for nothing else.
  static constexpr bool kMerges = kHeads == 8 || kTeams > 1;
  static constexpr int kWorkWarps = kWarps * kTeams;
  static constexpr int kWorkThreads = 32 * kWorkWarps;
  static constexpr int kGroups = 4;
  static constexpr int kTileTokens = kGroups * kGroupTokens;
  static constexpr int kStages = 2 * kTeams;
  static constexpr int kHalves = kTileTokens / 32;  // of a tile: what a copying warp copies at a time
  static constexpr int kCopiers = kHalves * kStages / 2;
  static constexpr int kBlockThreads = kWorkThreads + 32 * kCopiers;
  // Whole warpgroups can leave registers to others.
  static constexpr bool kMovesRegisters = kCopiers % 4 == 0;
  static constexpr int kCopyRegisters = 64;  // of a thread, then
  static constexpr int kWorkRegisters = registers_taken(kBlockThreads, kWorkThreads, kCopyRegisters);
  static constexpr int kQueryDims = Format::kScoreChunks * kChunkDims;
  static constexpr int kQueryStride = 2 * kQueryDims + 16;
  static constexpr bool kHasBf16Values = Format::kBf16Chunk < kValueChunks;
  static constexpr bool kScalesInRows = Format::kInnerScales >= 0;

  // Of a stage. What is made for a tile lies there, too: slower warps may still read that of the tile before.
  static constexpr int kRows = 0;                                           // [token] raw records
  static constexpr int kScales = kRows + kTileTokens * Format::kRowStride;  // [token], if not there
  static constexpr int kWeights =
      kScales + (kScalesInRows ? 0 : kTileTokens * Format::kScaleBytes);  // [group][head][row] F16
  static constexpr int kWeightBytes = kTileTokens * kHeads * 2;
  static constexpr int kWeightsHigh = kWeights + kWeightBytes;                             // the same in BF16
  static constexpr int kWeightsLow = kWeightsHigh + kWeightBytes;                          // and what it lacks
  static constexpr int kValueScales = kWeights + kWeightBytes * (kHasBf16Values ? 3 : 1);  // [scale][group][row] F16
  static constexpr int kScalesOfChunk = kTileTokens * 2;
  static constexpr int kChunksOfScale = kScalesInRows ? 2 : 1;
  static constexpr int kMaxima =  // [warp][head] FP32
      kValueScales + kValueChunks / kChunksOfScale * kScalesOfChunk;
  static constexpr int kValid = kMaxima + kWarps * kHeads * 4;  // [group] 16 bits
  static constexpr int kStageBytes = (kValid + kGroups * 2 + 15) / 16 * 16;

  static constexpr int kQuery = kStages * kStageBytes;              // [head] F16, BF16 in the BF16 chunk
  static constexpr int kExchange = kQuery + kHeads * kQueryStride;  // [team][warp][tile of heads][lane] 2 x FP32
  static constexpr int kExchangeBytes = kWorkWarps * (kHeads / 8) * 32 * 8;
  static constexpr int kTogether = kExchange + kExchangeBytes;  // results of a team for 8 heads
  // Behind a row's last tile; a team may be there while another one still exchanges scores.
  static constexpr int kWarpSums = kTeams == 1 ? kExchange : kTogether;  // [team][warp][head] FP32
  static constexpr int kOutputs = kExchange + kWorkWarps * kHeads * 4;   // [head] where results go, and their factor
  static constexpr int kTotals = kOutputs + kHeads * 16;                 // [head] {maximum, sum} FP32
  static constexpr int kTogetherBytes = (kTeams - 1) * kThreads * 16 * 4;
  static constexpr int kFactors = kTogether + kTogetherBytes;  // [head] 2 x FP32
  static constexpr int kSinks = kFactors + kHeads * 8;         // [head] FP32
  // Of each team, from kTeam on.
  static constexpr int kCommon = 0;                              // [head] FP32
  static constexpr int kBounds = kCommon + kHeads * 4;           // [two chunks] 16 bytes (LongScales)
  static constexpr int kExponents = kBounds + 8 * kValueChunks;  // [chunk] 16 bytes (LongScales)
  static constexpr int kTeamBytes = kExponents + 16 * kValueChunks;
  static constexpr int kTeam = kSinks + kHeads * 4;
  static constexpr int kCluster = kTeam + kTeams * kTeamBytes;  // of the row
  static constexpr int kNextTile = kCluster + 4;                // of all that the block works on
  static constexpr int kFilled = kCluster + 8;                  // [stage] barriers
  static constexpr int kFree = kFilled + 8 * kStages;
  static constexpr int kSummarized = kFree + 8 * kStages;  // a barrier
  static constexpr int kArrived = kSummarized + 8;         // a barrier
  static constexpr int kBytes = kArrived + 8;

  // Where results of the blocks of a cluster meet (short_merge.cuh), when no block has tokens any more.
  static constexpr int kMergeWarps = kWarps;
  static constexpr int kWarpsOfChunk = 1;
  static __device__ __forceinline__ int chunk_of_warp(int warp) { return warp; }
  static __device__ __forceinline__ int half_of_warp(int) { return 0; }
  static constexpr int kQuads = kHeads * kValueChunks * kChunkDims / 4;
  static constexpr int kFixedSplits = 8;
  static constexpr int kMostSplits = kMaxSplits;
  static constexpr int kSourceBytes = kQuads / kFixedSplits * 16;
  static constexpr int kResults = 0;                                       // [source][own piece] 4 x FP32
  static constexpr int kSummaries = kResults + kMaxSplits * kSourceBytes;  // [head][source] {maximum, sum} FP32
  static constexpr int kShares = kSummaries + kHeads * kMaxSplits * 8;     // [head][source] FP32

  // Stores the pairs of dimensions 8p .. 8p + 7 of head h.
  static __device__ __forceinline__ void write_query(uint8_t* shared, int h, int p, const uint32_t (&pairs)[4]) {
    write(shared + raw_query(h, p), uint4{pairs[0], pairs[1], pairs[2], pairs[3]});
  }
  // Where the 16 bytes of these dimensions are brought to first.
  static __device__ __forceinline__ int raw_query(int h, int p) { return kQuery + h * kQueryStride + 16 * p; }

  static_assert(Format::kChunk == Chunk::kScaledE4m3 && Format::kBf16Chunk == Format::kScoreChunks - 1);
  static_assert(kScales % 16 == 0 && kWeights % 16 == 0 && kValueScales % 16 == 0 && kMaxima % 16 == 0);
  static_assert(kExchange % 16 == 0 && kFactors % 16 == 0 && kSinks % 16 == 0 && kTeam % 16 == 0);
  static_assert(kTeamBytes % 16 == 0 && kBounds % 16 == 0 && kExponents % 16 == 0);
  static_assert(kFilled % 8 == 0 && kValid % 4 == 0);
  static_assert(kTotals + kHeads * 8 <= kTogether && kShares + kHeads * kMaxSplits * 4 <= kQuery);
  // 1 KB of each block is the system's.
  static_assert(kBytes <= 228 * 1024 / kBlocksPerSm - 1024);
};

// Of all computing warps.
template <typename Layout>
__device__ __forceinline__ void sync_teams() {
  named_barrier(0, Layout::kWorkThreads);
}

}  // namespace flashmla::cuda
