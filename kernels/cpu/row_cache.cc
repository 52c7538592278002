#include "kernels/cpu/row_cache.h"

#include <algorithm>

namespace flashmla::cpu {

RowCache::RowCache(void* memory, int64_t row_floats)
    : row_floats_(row_floats),
      keys_(static_cast<int64_t*>(memory)),
      tiles_(keys_ + kLines),
      rows_(reinterpret_cast<float*>(tiles_ + kLines)) {
  std::fill_n(keys_, kLines, int64_t{-1});
  std::fill_n(tiles_, kLines, int64_t{0});
}

void RowCache::start_tile() {
  ++tile_;
  spilled_ = 0;
}

float* RowCache::find(int32_t source, int32_t slot, bool* missed) {
  const int64_t key = int64_t{source} << 32 | slot;
  // The two caches of a call start half a table apart: their slots count from 0 both.
  const int32_t line = (slot + source * (kLines / 2)) & (kLines - 1);
  if (keys_[line] != key) {
    *missed = true;
    if (tiles_[line] == tile_) return rows_ + (kLines + spilled_++) * row_floats_;
    keys_[line] = key;
  } else {
    *missed = false;
  }
  tiles_[line] = tile_;
  return rows_ + line * row_floats_;
}

}  // namespace flashmla::cpu
