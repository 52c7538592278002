// Dense decode on sm_90a: the roles of a block's warps and where everything lies in its shared memory.
#pragma once

#include "kernels/cuda/arguments.h"
#include "kernels/cuda/record.cuh"

namespace flashmla::cuda::dense {

constexpr int kTileTokens = 64;
constexpr int kChunkBytes = kTileTokens * kChunkDims * 2;  // of a tile, [token][64] BF16
constexpr int kWarpgroup = 128;
constexpr int kMostShared = 227 * 1024;

// Named barriers of the block.
enum : uint32_t { kReadyBarrier = 1, kScoreBarrier = 2, kValueBarrier = 3, kBarriersBarrier = 4 };

// kRows: query rows of a block (heads of all query tokens); kChunks: of a key, 64 dimensions each.
template <int kRows, int kChunks>
struct Layout {
  // Warpgroup 0 scores; one or two add up values; a warp copies. With 64 rows it has a warpgroup to itself, whose
  // registers the others take.
  static constexpr int kValueGroups = kRows > 32 ? 2 : 1;
  static constexpr int kValueChunksOfGroup = kValueChunks / kValueGroups;
  static constexpr bool kMovesRegisters = kRows >= 32;
  static constexpr int kWorkers = kWarpgroup * (1 + kValueGroups);  // threads that do not copy
  static constexpr int kThreads = kWorkers + (kMovesRegisters ? kWarpgroup : 32);
  static constexpr int kCopierRegisters = kRows > 32 ? 32 : 40;
  static constexpr int kScorerRegisters = kRows > 32 ? 128 : 168;
  static constexpr int kAdderRegisters = kRows > 32 ? 176 : 208;
  static constexpr int kBuffers = kRows > 32 ? 1 : 2;  // of weights

  // Neighbouring chunks of a tile that are copied, and free again, together. With 64 rows space is scarce.
  static constexpr int kSlotChunks = kRows > 32 ? 1 : kChunks == 9 ? 3 : 4;
  static constexpr int kSlotsOfTile = kChunks / kSlotChunks;
  static constexpr int kSlotBytes = kSlotChunks * kChunkBytes;
  static constexpr bool kLastSlotHasValues = (kSlotsOfTile - 1) * kSlotChunks < kValueChunks;

  // Operands of tensor cores: rows of 128 bytes, swizzled.
  static constexpr int kOperandBytes = kRows * 128;
  static constexpr int kQuery = 0;                                        // [chunk][row][64] BF16
  static constexpr int kWeights = kQuery + kChunks * kOperandBytes;       // [buffer][high, low][row][token] BF16
  static constexpr int kSlots = kWeights + kBuffers * 2 * kOperandBytes;  // [slot][chunk] of tiles, a ring
  static constexpr int kSmallBytes = 640 + kRows * (kBuffers * 4 + 28);
  static constexpr int kSlotCount = (kMostShared - kSlots - kSmallBytes) / kSlotBytes;

  static constexpr int kFull = kSlots + kSlotCount * kSlotBytes;  // [slot] barriers: the chunks are there
  static constexpr int kEmpty = kFull + 8 * kSlotCount;           // [slot] it has been used
  static constexpr int kWeightsFull = kEmpty + 8 * kSlotCount;    // [buffer]
  static constexpr int kWeightsEmpty = kWeightsFull + 8 * kBuffers;
  static constexpr int kMissing =
      kWeightsEmpty + 8 * kBuffers;                         // [slot] of a tile's first chunks: bit i: no tokens 8i..
  static constexpr int kGrows = kMissing + 4 * kSlotCount;  // [buffer][scoring warp] not 0: factors are not all 1
  static constexpr int kMaxima =
      (kGrows + 16 * kBuffers + 15) / 16 * 16;                      // [row][warp] FP32, of a tile; sums at the end
  static constexpr int kFactors = kMaxima + 16 * kRows;             // [buffer][row] FP32
  static constexpr int kVisible = kFactors + 4 * kBuffers * kRows;  // [row] tokens that a row sees
  static constexpr int kSummaries = kVisible + 4 * kRows;           // [row] {maximum, sum}
  static constexpr int kBytes = kSummaries + 8 * kRows;

  // At the end, where the slots were: [row][512] FP32.
  static constexpr int kResultStride = 4 * (kValueChunks * kChunkDims + (kRows > 32 ? 8 : 4));
  // And where the queries were: [row][source] FP32; [row] {maximum, sum}.
  static constexpr int kShares = kQuery;
  static constexpr int kTotals = kShares + kMaxSplits * kRows * 4;

  static_assert(kOperandBytes % 1024 == 0 && kSlots % 1024 == 0 && kFull % 8 == 0);
  static_assert(kRows * kResultStride <= kSlotCount * kSlotBytes);
  static_assert(kMaxSplits * kRows * 4 + kRows * 8 <= kChunks * kOperandBytes);
  static_assert(kSlotCount * kSlotChunks >= 2 * kValueChunks && kChunks % kSlotChunks == 0 && kBytes <= kMostShared);
};

// A place in the ring of slots, or of weight buffers, and how often it has been used: the parity of its barriers.
template <int kCount>
struct RingPlace {
  uint32_t index = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void advance(uint32_t by = 1) {
    index += by;
    if (index >= kCount) {
      index -= kCount;
      parity ^= 1;
    }
  }
  __device__ __forceinline__ RingPlace ahead(uint32_t by) const {
    RingPlace place = *this;
    place.advance(by);
    return place;
  }
};

// What a block works on: a part of the tiles of one request, for some of its rows.
struct Task {
  int32_t request;
  int32_t part;
  int32_t all_parts;  // of all requests
  int32_t first_row;
  int32_t rows;   // real ones; may be 0 or less
  int32_t count;  // tokens of the request
  int32_t first_tile, tiles;
};

// Where a chunk of a tile lies whose first slot is `first`.
template <typename Layout>
__device__ __forceinline__ uint32_t chunk_offset(const RingPlace<Layout::kSlotCount>& first, int chunk) {
  return Layout::kSlots + Layout::kSlotBytes * first.ahead(chunk / Layout::kSlotChunks).index +
         kChunkBytes * (chunk % Layout::kSlotChunks);
}

// Zeroes the values of a tile behind its last token: what lies there may be no number. All threads of a warpgroup.
template <typename Layout>
__device__ __forceinline__ void erase_values(uint8_t* shared, const RingPlace<Layout::kSlotCount>& first,
                                             int32_t tokens, int thread) {
  const int pieces = (kTileTokens - tokens) * 8;  // of 16 bytes, in a chunk
#pragma unroll 1
  for (int chunk = 0; chunk < kValueChunks; ++chunk) {
    uint8_t* values = shared + chunk_offset<Layout>(first, chunk) + tokens * 128;
    for (int i = thread; i < pieces; i += kWarpgroup) write(values + 16 * i, uint4{0, 0, 0, 0});
  }
}

}  // namespace flashmla::cuda::dense
