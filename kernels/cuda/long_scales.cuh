// Scales of the values in the kernel for many tokens: F16 over a power of two that all values of a chunk refer to.
#pragma once

#include "kernels/cuda/long_layout.cuh"
#include "kernels/cuda/score.cuh"

namespace flashmla::cuda {

template <typename Layout>
__device__ __forceinline__ StoredToken stored_token(const uint8_t* stage, int token) {
  using Format = typename Layout::Format;
  const uint8_t* row = stage + Layout::kRows + token * Format::kRowStride;
  if constexpr (Layout::kScalesInRows) return {row, row + Format::kInnerScales};
  return {row, stage + Layout::kScales + token * Format::kScaleBytes};
}

template <typename Layout>
class LongScales {
 public:
  using Format = typename Layout::Format;

  // `team`: what is the team's in shared memory; `warp`: of the team.
  __device__ __forceinline__ LongScales(uint8_t* team, int warp, int lane) : team_(team), warp_(warp), lane_(lane) {}

  // Before a row's first tile.
  __device__ __forceinline__ void reset() const {
    if (lane_ != 0) return;
    const bool scaled = warp_ != Format::kBf16Chunk;
    write(of_chunk(), scaled ? int4{kNoUnits, kNoUnits, 0, 0} : int4{0, 0, 0, 0});
    set_bounds(kNoUnits);
    // The padding behind the scales fits.
    if (!scaled) write(bounds(), static_cast<uint16_t>(0xffff));
  }

  // The scales of a group for half of the chunks, over the units so far. False if any is too large or too small for
  // F16. Lane l has operand row l % 16 and two of the chunks.
  __device__ __forceinline__ bool convert(uint8_t* stage, int group, int half) const {
    const int row = lane_ & 15, pair = 2 * half + (lane_ >> 4);
    const uint8_t* scales = stored_token<Layout>(stage, kGroupTokens * group + token_of_row(row)).scales;
    uint8_t* const to = stage + Layout::kValueScales + 2 * pair / Layout::kChunksOfScale * Layout::kScalesOfChunk +
                        2 * (kGroupTokens * group + row);
    if constexpr (Layout::kScalesInRows) {
      const auto units = read<int32_t>(team_ + Layout::kBounds + 16 * pair);
      const auto scale = read<float>(scales + 4 * pair);
      const auto exponent = static_cast<int32_t>(__float_as_uint(scale) >> 23 & 0xff);
      write(to, static_cast<uint16_t>(pack_f16x2(scale * power_of_two(-units), 0)));
      const int32_t below = units + 127 - exponent;
      const bool fits = static_cast<uint32_t>(below - kLeastBits) <= static_cast<uint32_t>(kMostBits - kLeastBits);
      return __all_sync(~0U, fits || __float_as_uint(scale) << 1 == 0);
    } else {
      const auto bounds = read<uint4>(team_ + Layout::kBounds + 16 * pair);
      const uint32_t two = __byte_perm(read<uint16_t>(scales + 2 * pair), 0, 0x4140);
      const uint32_t f16 = __viaddmax_s16x2_relu(two, bounds.z, 0) << 10;
      write(to, static_cast<uint16_t>(f16));
      write(to + Layout::kScalesOfChunk, static_cast<uint16_t>(f16 >> 16));
      // Zero less 1 is the largest number.
      const bool fits = __vmaxu2(two, bounds.x) == bounds.x && __viaddmin_u16x2(two, ~0U, bounds.y) == bounds.y;
      return __all_sync(~0U, fits);
    }
  }

  // The same for the warp's own chunk and all groups, over units that suit them. Returns what the chunk's results are
  // to be multiplied with. Others see it all behind the next barrier.
  __device__ __forceinline__ float prepare(uint8_t* stage, int groups) const {
    if (warp_ == Format::kBf16Chunk) return 1;
    const int group = lane_ >> 2, c = lane_ & 3;
    float value[4];
    uint32_t most = 0, least = ~0U;  // biased exponents; `least` less 1: 0 becomes the largest number
#pragma unroll
    for (int x = 0; x < 4; ++x) {
      value[x] = group < groups ? of_token(stage, group, x) : 0;
      const uint32_t exponent = __float_as_uint(value[x]) >> 23 & 0xff;
      if (exponent != 0) most = max(most, exponent + kLeastBits);
      least = min(least, exponent - 1);
    }
    const auto largest = static_cast<int32_t>(__reduce_max_sync(~0U, min(most, 254U)));
    const auto smallest = static_cast<int32_t>(min(__reduce_min_sync(~0U, least), 254U)) - 126;
    const auto before = read<int4>(of_chunk());
    const int32_t units = max(before.y, min((largest - 127 + 3) >> 2 << 2, 124));
    const bool spread = before.z != 0 || units - smallest > kMostBits;
    if (group < Layout::kGroups && warp_ % Layout::kChunksOfScale == 0) {
      const float by = power_of_two(min(-units, 126));
      write(table(stage) + 2 * (kGroupTokens * group + 4 * c),
            uint2{pack_f16x2(value[0] * by, value[1] * by), pack_f16x2(value[2] * by, value[3] * by)});
    }
    // Results are larger by 2^bits where scales are far apart, so that products with small ones are normal numbers.
    const int32_t now = units - (spread ? min(max(units + 60, 0), 80) : 0);
    __syncwarp();
    if (lane_ == 0) {
      set_bounds(units);
      write(of_chunk(), int4{now, units, spread ? 1 : 0, 0});
    }
    return exp2_fast(static_cast<float>(before.x - now));
  }

  // Of thread c's tokens of group k, for the warp's chunk: F16, and FP32 of one.
  __device__ __forceinline__ uint2 of_values(const uint8_t* stage, int k) const {
    return read<uint2>(table(stage) + 2 * (kGroupTokens * k + 4 * (lane_ & 3)));
  }
  __device__ __forceinline__ float of_token(const uint8_t* stage, int k, int x) const {
    const int row = 4 * (lane_ & 3) + x;
    const uint8_t* scales = stored_token<Layout>(stage, kGroupTokens * k + token_of_row(row)).scales;
    if constexpr (Layout::kScalesInRows) return read<float>(scales + 4 * (warp_ / 2));
    return __uint_as_float(static_cast<uint32_t>(scales[warp_]) << 23);
  }

  // Results of the warp's chunk are in units of this power of two.
  __device__ __forceinline__ int32_t exponent() const {
    return read<int32_t>(of_chunk());
  }
  // Any scales so far were too far apart for F16.
  __device__ __forceinline__ bool are_spread() const {
    return read<int32_t>(of_chunk() + 8) != 0;
  }

 private:
  static constexpr int32_t kNoUnits = -126;  // before the first scale
  // Bits of a scale below the units: the mantissa of an FP32 scale may double its power.
  static constexpr int32_t kLeastBits = Layout::kScalesInRows ? 1 : 0;
  static constexpr int32_t kMostBits = Layout::kScalesInRows ? 10 : 14;

  template <typename Stage>
  __device__ __forceinline__ Stage* table(Stage* stage) const {
    return stage + Layout::kValueScales + warp_ / Layout::kChunksOfScale * Layout::kScalesOfChunk;
  }

  // What convert() needs: in rows the units of both chunks; otherwise, 16 bits for each of them, the biased exponent of
  // the units, that of the smallest scale that fits less 1, and what makes an exponent of F16 of one of these.
  __device__ __forceinline__ uint8_t* bounds() const {
    return team_ + Layout::kBounds + 16 * (warp_ / 2) + (Layout::kScalesInRows ? 0 : 2 * (warp_ % 2));
  }
  __device__ __forceinline__ void set_bounds(int32_t units) const {
    if constexpr (Layout::kScalesInRows) {
      if (warp_ % 2 == 0) write(bounds(), units);
    } else {
      write(bounds(), static_cast<uint16_t>(units + 127));
      write(bounds() + 4, static_cast<uint16_t>(max(units + 127 - kMostBits - 1, 0)));
      write(bounds() + 8, static_cast<uint16_t>(15 - (units + 127)));
    }
  }
  // Exponents of what the chunk's results and its scales as F16 are in units of, and whether they are spread.
  __device__ __forceinline__ uint8_t* of_chunk() const {
    return team_ + Layout::kExponents + 16 * warp_;
  }

  uint8_t* team_;
  const int warp_, lane_;
};

}  // namespace flashmla::cuda
