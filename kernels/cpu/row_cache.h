// Keeps dequantised tokens of one thread for the length of one call. Neighbouring query tokens select mostly the same
// slots; a hit saves the dequantisation. Hit or miss, a row has the same values, so results do not depend on it.
#pragma once

#include <cstdint>

#include "kernels/cpu/tile_ops.h"

namespace flashmla::cpu {

class RowCache {
 public:
  static constexpr int32_t kLines = 1024;

  // Bytes of memory for rows of `row_floats` floats.
  static constexpr int64_t bytes(int64_t row_floats) {
    return kLines * (sizeof(int64_t) + sizeof(int64_t)) + (kLines + kTileTokens) * row_floats * int64_t{sizeof(float)};
  }

  // Starts empty on `memory` (64-byte aligned, uninitialised).
  RowCache(void* memory, int64_t row_floats);

  // Rows handed out stay valid until the next call of this.
  void start_tile();

  // The row of (`source`, `slot`). On a miss `*missed` is set and the caller must fill the row.
  float* find(int32_t source, int32_t slot, bool* missed);

 private:
  int64_t row_floats_;
  int64_t* keys_;   // [kLines], -1 = empty
  int64_t* tiles_;  // [kLines], the last tile that uses the line
  float* rows_;     // [kLines] rows, then kTileTokens rows for tokens whose line the same tile uses already
  int64_t tile_ = 0;
  int32_t spilled_ = 0;
};

}  // namespace flashmla::cpu
