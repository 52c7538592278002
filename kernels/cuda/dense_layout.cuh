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
enum : uint32_t { kReadyBarrier = 1, kScoreBarrier = 2, kValueBarrier = 3 };

// kRows: query rows of a block (heads of all query tokens); kChunks: of a key, 64 dimensions each; kSlices: blocks that
// share the value dimensions.
template <int kRows, int kChunks, int kSlices = 1>
struct Layout {
  // Warpgroup 0 scores; one or two add up values; a warp copies. Where there are two it has a warpgroup to itself,
  // whose registers the others take.
  static constexpr int kValueGroups = kRows > 16 && kSlices == 1 ? 2 : 1;
  static constexpr int kSliceChunks = kValueChunks / kSlices;  // value chunks of the block
  static constexpr int kValueChunksOfGroup = kSliceChunks / kValueGroups;
  static constexpr bool kMovesRegisters = kValueGroups == 2;
  static constexpr int kWorkers = kWarpgroup * (1 + kValueGroups);  // threads that do not copy
  static constexpr int kThreads = kWorkers + (kMovesRegisters ? kWarpgroup : 32);
  static constexpr int kCopierRegisters = 24;
  static constexpr int kScorerRegisters = 136;
  static constexpr int kAdderRegisters = 176;
  static constexpr int kBuffers = kRows > 32 ? 1 : 2;  // of weights

  // Neighbouring chunks of a tile that are copied, and free again, together. With 64 rows space is scarce.
  static constexpr int kSlotChunks = kRows > 32 ? 1 : kChunks == 9 ? 3 : 4;
  static constexpr int kSlotsOfTile = kChunks / kSlotChunks;
  static constexpr int kSlotBytes = kSlotChunks * kChunkBytes;
  // Warps that say when they no longer need a slot. A slot of several chunks has some of each group's.
  static constexpr int kSlotUsers = kSlotChunks > 1 ? 4 * kValueGroups : 4;

  // Operands of tensor cores: rows of 128 bytes, swizzled.
  static constexpr int kOperandBytes = kRows * 128;
  static constexpr int kQuery = 0;                                        // [chunk][row][64] BF16
  static constexpr int kWeights = kQuery + kChunks * kOperandBytes;       // [buffer][high, low][row][token] BF16
  static constexpr int kSlots = kWeights + kBuffers * 2 * kOperandBytes;  // [slot][chunk] of tiles, a ring
  static constexpr int kSmallBytes = 672 + kRows * (kBuffers * 4 + 24);
  // With 64 rows the ring is two rooms, each for the values of a tile, and a slot for what else a key has: with a tile
  // being added up there is then still room for all of the next one.
  static constexpr bool kHasRooms = kRows > 32;
  static constexpr int kSlotCount =
      kHasRooms ? 2 * kValueChunks + 1 : (kMostShared - kSlots - kSmallBytes) / kSlotBytes;

  static constexpr int kFull = kSlots + kSlotCount * kSlotBytes;  // [slot] barriers: the chunks are there
  static constexpr int kEmpty = kFull + 8 * kSlotCount;           // [slot] it has been used
  static constexpr int kWeightsFull = kEmpty + 8 * kSlotCount;    // [buffer]
  static constexpr int kWeightsEmpty = kWeightsFull + 8 * kBuffers;
  static constexpr int kQueryFull = kWeightsEmpty + 8 * kBuffers;
  static constexpr int kMissing = kQueryFull + 8;           // [slot] of a tile's first chunks: bit i: no tokens 8i..
  static constexpr int kGrows = kMissing + 4 * kSlotCount;  // [buffer][scoring warp] not 0: factors are not all 1
  static constexpr int kMaxima =
      (kGrows + 16 * kBuffers + 15) / 16 * 16;                        // [row][warp] FP32, of a tile; sums at the end
  static constexpr int kFactors = kMaxima + 16 * kRows;               // [buffer][row] FP32
  static constexpr int kSummaries = kFactors + 4 * kBuffers * kRows;  // [row] {maximum, sum}
  static constexpr int kBytes = kSummaries + 8 * kRows;

  // At the end, where the slots were: [row][dimension of the slice] FP32.
  static constexpr int kResultDims = kSliceChunks * kChunkDims;
  static constexpr int kResultStride = 4 * (kResultDims + (kRows > 32 ? 8 : 4));
  // And where the queries were: [warp][128 dimensions] FP32.
  static constexpr int kPartialSums = kQuery;

  static_assert(kOperandBytes % 1024 == 0 && kSlots % 1024 == 0 && kFull % 8 == 0);
  static_assert(kRows * kResultStride <= kSlotCount * kSlotBytes);
  static_assert(kWorkers / 32 * 512 <= kChunks * kOperandBytes);
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
  int32_t rows;         // real ones; may be 0 or less
  int32_t first_chunk;  // of the values
  int32_t count;        // tokens of the request
  int32_t first_tile, tiles;
};

// Where a chunk of a tile lies whose first slot is `first`.
template <typename Layout>
__device__ __forceinline__ uint32_t chunk_offset(const RingPlace<Layout::kSlotCount>& first, int chunk) {
  return Layout::kSlots + Layout::kSlotBytes * first.ahead(chunk / Layout::kSlotChunks).index +
         kChunkBytes * (chunk % Layout::kSlotChunks);
}

// The slot of a chunk of a tile in a room, and the parity of its barriers; `tile` counts those of the block.
__device__ __forceinline__ uint32_t slot_of_chunk(const RingPlace<2>& room, int chunk) {
  return chunk < kValueChunks ? kValueChunks * room.index + static_cast<uint32_t>(chunk) : 2U * kValueChunks;
}

__device__ __forceinline__ uint32_t parity_of_chunk(const RingPlace<2>& room, int chunk, int32_t tile) {
  return chunk < kValueChunks ? room.parity : static_cast<uint32_t>(tile) & 1U;
}

template <typename Layout>
__device__ __forceinline__ uint32_t chunk_offset(const RingPlace<2>& room, int chunk) {
  return Layout::kSlots + kChunkBytes * slot_of_chunk(room, chunk);
}

// In which order chunks of a tile are copied and multiplied, with rooms: as those of the tile that was there before
// become free.
template <int kChunks>
__device__ __forceinline__ constexpr int chunk_in_turn(int turn) {
  constexpr int kOthers = kChunks - kValueChunks;
  return turn < kOthers ? kValueChunks + turn : turn - kOthers;
}

// Zeroes the block's values of a tile behind its last token: what lies there may be no number. All threads of a
// warpgroup.
template <typename Layout, typename Place>
__device__ __forceinline__ void erase_values(uint8_t* shared, const Place& place, int32_t first_chunk, int32_t tokens,
                                             int thread) {
  const int pieces = (kTileTokens - tokens) * 8;  // of 16 bytes, in a chunk
#pragma unroll 1
  for (int chunk = first_chunk; chunk < first_chunk + Layout::kSliceChunks; ++chunk) {
    uint8_t* values = shared + chunk_offset<Layout>(place, chunk) + tokens * 128;
    for (int i = thread; i < pieces; i += kWarpgroup) write(values + 16 * i, uint4{0, 0, 0, 0});
  }
}

}  // namespace flashmla::cuda::dense
