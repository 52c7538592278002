// Dense decode on sm_90a: the roles of a block's warps and where everything lies in its shared memory.
#pragma once

#include "kernels/cuda/arguments.h"
#include "kernels/cuda/record.cuh"

namespace flashmla::cuda::dense {

constexpr int kTileTokens = 64;
constexpr int kSlotBytes = kTileTokens * kChunkDims * 2;  // a chunk of a tile, [token][64] BF16
constexpr int kWarpgroup = 128;
constexpr int kMostShared = 227 * 1024;

// Named barriers of the block.
enum : uint32_t { kReadyBarrier = 1, kScoreBarrier = 2, kValueBarrier = 3 };

// kRows: query rows of a block (heads of all query tokens); kChunks: of a key, 64 dimensions each.
template <int kRows, int kChunks>
struct Layout {
  // Warpgroup 0 scores; one or two add up values; a warp copies. With 64 rows it has a warpgroup to itself, whose
  // registers the others take.
  static constexpr int kValueGroups = kRows > 32 ? 2 : 1;
  static constexpr int kValueChunksOfGroup = kValueChunks / kValueGroups;
  static constexpr bool kMovesRegisters = kRows > 32;
  static constexpr int kWorkers = kWarpgroup * (1 + kValueGroups);  // threads that do not copy
  static constexpr int kThreads = kWorkers + (kMovesRegisters ? kWarpgroup : 32);
  static constexpr int kCopierRegisters = 32, kWorkerRegisters = 160;
  static constexpr int kBuffers = kRows > 32 ? 1 : 2;  // of weights

  // Operands of tensor cores: rows of 128 bytes, swizzled.
  static constexpr int kOperandBytes = kRows * 128;
  static constexpr int kQuery = 0;                                        // [chunk][row][64] BF16
  static constexpr int kWeights = kQuery + kChunks * kOperandBytes;       // [buffer][high, low][row][token] BF16
  static constexpr int kSlots = kWeights + kBuffers * 2 * kOperandBytes;  // [slot] chunks of tiles, a ring
  static constexpr int kSmallBytes = 640 + kRows * (kBuffers * 4 + 28);
  static constexpr int kSlotCount = (kMostShared - kSlots - kSmallBytes) / kSlotBytes;

  static constexpr int kFull = kSlots + kSlotCount * kSlotBytes;  // [slot] barriers: a chunk is there
  static constexpr int kEmpty = kFull + 8 * kSlotCount;           // [slot] it has been used
  static constexpr int kWeightsFull = kEmpty + 8 * kSlotCount;    // [buffer]
  static constexpr int kWeightsEmpty = kWeightsFull + 8 * kBuffers;
  static constexpr int kMissing =
      kWeightsEmpty + 8 * kBuffers;                         // [slot] of a tile's first chunk: bit i: no tokens 8i..
  static constexpr int kGrows = kMissing + 4 * kSlotCount;  // [buffer] not 0: factors are not all 1
  static constexpr int kMaxima =
      (kGrows + 4 * kBuffers + 15) / 16 * 16;                       // [row][warp] FP32, of a tile; sums at the end
  static constexpr int kFactors = kMaxima + 16 * kRows;             // [buffer][row] FP32
  static constexpr int kVisible = kFactors + 4 * kBuffers * kRows;  // [row] tokens that a row sees
  static constexpr int kSummaries = kVisible + 4 * kRows;           // [row] {maximum, sum}
  static constexpr int kBytes = kSummaries + 8 * kRows;

  // At the end, where the slots were: [row][512] FP32.
  static constexpr int kResultStride = 4 * (kValueChunks * kChunkDims + 4);
  // And where the weights were: [source][row] FP32.
  static constexpr int kShares = kWeights;

  static_assert(kOperandBytes % 1024 == 0 && kSlots % 1024 == 0 && kFull % 8 == 0);
  static_assert(kRows * kResultStride <= kSlotCount * kSlotBytes);
  static_assert(kMaxSplits * kRows * 4 <= kBuffers * 2 * kOperandBytes);
  static_assert(kSlotCount >= 2 * kValueChunks && kBytes <= kMostShared);
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
struct Work {
  int32_t request;
  int32_t part;
  int32_t first_row;
  int32_t rows;   // real ones; may be 0 or less
  int32_t count;  // tokens of the request
  int32_t first_tile, tiles;
};

}  // namespace flashmla::cuda::dense
