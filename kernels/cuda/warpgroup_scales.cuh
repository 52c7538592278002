// WarpgroupWorker's scales of the values, as F16 over a power of two that all values of a chunk refer to.
#pragma once

#include "kernels/cuda/warpgroup.cuh"

namespace flashmla::cuda {

template <typename SharedLayout>
__device__ __forceinline__ bool WarpgroupWorker<SharedLayout>::convert_own_scales(int slot, bool exists,
                                                                                  int table) const {
  const int row = lane_ & 15, chunks = lane_ >> 4 << 2;
  const uint8_t* scales = scales_of_slot(slot) + token_of_row(row) * Format::kStoredScales;
  const auto four = read<int4>(shared_ + Layout::kUnits + 4 * (team_ * kValueChunks + chunks));
  const int32_t units[4] = {four.x, four.y, four.z, four.w};
  uint8_t* to =
      shared_ + Layout::kValueScales + table + (chunks * Layout::kWorkWarps + warp_) * Layout::kScaleRow + 2 * row;
  uint32_t raw[2] = {0, 0};  // all scales of the half, as they are stored
  if constexpr (Format::kInnerScales >= 0) {
    const auto both = read<uint2>(scales + 2 * chunks);
    raw[0] = both.x, raw[1] = both.y;
  } else {
    raw[0] = read<uint32_t>(scales + chunks);
  }
  bool fit = true;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t scale = Format::kInnerScales >= 0 ? raw[i / 2] : (raw[0] >> 8 * i & 0xffU) << 23;
    const int32_t exponent = scale >> 23 & 0xff;
    // How far below the units, of which it is at most kMostBits.
    const int32_t below = units[i] + 127 - exponent;
    const bool needed = exists && scale << 1 != 0 && chunks + i != Format::kBf16Chunk;
    fit &= !needed || static_cast<uint32_t>(below - kLeastBits) <= static_cast<uint32_t>(kMostBits - kLeastBits);
    const float by = power_of_two(min(max(static_cast<int32_t>(kScaleBits) - units[i], -126), 127));
    const float value = needed ? __uint_as_float(scale) * by : 0;
    write(to + i * Layout::kWorkWarps * Layout::kScaleRow, static_cast<uint16_t>(pack_f16x2(value, 0)));
  }
  return fit;
}

template <typename SharedLayout>
__device__ __forceinline__ void WarpgroupWorker<SharedLayout>::prepare_scales(int first, int here, int table) {
  const int group = (lane_ >> 2) % Layout::kGroups;
  const int mine = (lane_ >> 2) / Layout::kGroups;  // which of the warp's chunks
  const int chunk = rank_ + 4 * mine;
  const bool exists = group < here && chunk != Format::kBf16Chunk;
  if (exists) wait_for(first + group);
  __syncwarp();
  float value[4];
  uint32_t most = 0, least = ~0U;  // biased exponents; `least` less 1: 0 becomes the largest number
#pragma unroll
  for (int x = 0; x < 4; ++x) {
    value[x] = exists ? scale_of(scales_of_slot(slot_of(first + group)), x, chunk) : 0;
    const uint32_t exponent = __float_as_uint(value[x]) >> 23 & 0xff;
    most = max(most, exponent + kLeastBits);
    least = min(least, exponent - 1);
  }
  int32_t units = 0;
  bool spread = read<uint32_t>(shared_ + Layout::kSpread + 4 * warp_) != 0;
#pragma unroll
  for (int i = 0; i < kSets; ++i) {
    const uint32_t high = mine == i ? min(most, 254U) : 0, low = mine == i ? least : ~0U;
    const auto largest = static_cast<int32_t>(__reduce_max_sync(~0U, high));
    const auto smallest = static_cast<int32_t>(min(__reduce_min_sync(~0U, low), 254U)) - 126;
    uint8_t* of_chunk = shared_ + Layout::kUnits + 4 * (team_ * kValueChunks + rank_ + 4 * i);
    const int32_t now = max(read<int32_t>(of_chunk), min((largest - 127 + 3) >> 2 << 2, 124));
    spread |= now - smallest > kMostBits;
    if (mine == i) units = now;
    __syncwarp();
    if (lane_ == 0) write(of_chunk, now);
  }
  const float by = power_of_two(min(max(static_cast<int32_t>(kScaleBits) - units, -126), 127));
  write(value_scales(chunk, group, table),
        uint2{pack_f16x2(value[0] * by, value[1] * by), pack_f16x2(value[2] * by, value[3] * by)});
  if (lane_ == 0) write(shared_ + Layout::kSpread + 4 * warp_, spread ? 1U : 0U);
}

}  // namespace flashmla::cuda
