// Bringing tokens into shared memory.
#pragma once

#include "kernels/cuda/arguments.h"
#include "kernels/cuda/shared_layout.cuh"

namespace flashmla::cuda {

// The tokens of one row, main before extra, and the part of them that this block attends to.
struct TokenRange {
  int32_t main_count;
  int32_t begin, end;  // of this block, counted over both selections
  int32_t each;        // tokens of a block, at most
};

// What a block works on.
struct Place {
  int32_t b;
  int32_t token;       // sparse: query token
  int32_t first_head;  // sparse: of the row; dense: of all query tokens of the request
  int32_t row, part;   // of the parts of the row
};

__device__ __forceinline__ uint32_t quotient(uint32_t number, const Divisor& by) {
  return static_cast<uint32_t>(static_cast<uint64_t>(number) * by.multiplier >> by.shift);
}

template <typename Format>
struct Source {
  const uint8_t* row;  // null: no token
  const uint8_t* scales;
  bool aligned;
};

template <typename Format>
__device__ __forceinline__ Source<Format> locate(const Pool& pool, int64_t slot_or_page, int32_t offset) {
  const uint8_t* page = pool.base + slot_or_page * pool.page_stride;
  return {page + offset * pool.row_stride, page + pool.scale_offset + offset * Format::kScaleBytes, pool.aligned};
}

// The index of token `position`, before it is looked up: sparse a slot, dense a page number; negative: no token.
template <typename Format>
__device__ __forceinline__ int32_t load_index(const DecodeArguments& a, const Place& place, const TokenRange& range,
                                              int32_t position) {
  if (position >= range.end) return -1;
  if constexpr (kDense<Format>) {
    return a.main.indices[place.b * a.main.batch_stride + quotient(position, a.main.pool.page_size)];
  } else {
    const bool extra = position >= range.main_count;
    const Selection& from = extra ? a.extra : a.main;
    const int32_t i = extra ? position - range.main_count : position;
    return from.indices[place.b * from.batch_stride + place.token * from.query_stride + i];
  }
}

template <typename Format>
__device__ __forceinline__ Source<Format> find_token(const DecodeArguments& a, const TokenRange& range,
                                                     int32_t position, int32_t index) {
  if (index < 0) return {nullptr, nullptr, true};
  if constexpr (kDense<Format>) {
    const Pool& pool = a.main.pool;
    if (int64_t{index} * pool.page_size.divisor >= pool.num_slots) return {nullptr, nullptr, true};
    const int32_t offset = position - quotient(position, pool.page_size) * pool.page_size.divisor;
    return locate<Format>(pool, index, offset);
  } else {
    const Pool& pool = position >= range.main_count ? a.extra.pool : a.main.pool;
    if (index >= pool.num_slots) return {nullptr, nullptr, true};
    const uint32_t page = quotient(index, pool.page_size);
    return locate<Format>(pool, page, index - page * pool.page_size.divisor);
  }
}

// The tokens of request `b` that block `shard` of those that share a row attends to.
template <typename Format>
__device__ __forceinline__ TokenRange token_range(const DecodeArguments& a, int32_t b, int32_t shard) {
  TokenRange range{};
  int32_t count = 0;
  if constexpr (kDense<Format>) {
    const int64_t most = int64_t{a.main.count} * a.main.pool.page_size.divisor;
    count = static_cast<int32_t>(min(static_cast<int64_t>(max(a.main.lengths[b], 0)), most));
    range.main_count = count;
  } else {
    range.main_count = a.main.lengths != nullptr ? min(max(a.main.lengths[b], 0), a.main.count) : a.main.count;
    const int32_t extra = a.extra.lengths != nullptr ? min(max(a.extra.lengths[b], 0), a.extra.count) : a.extra.count;
    count = range.main_count + extra;
  }
  const auto share = static_cast<int32_t>(quotient(count + a.shards.divisor - 1, a.shards));
  range.each = (share + kGroupTokens - 1) / kGroupTokens * kGroupTokens;
  range.begin = min(count, shard * range.each);
  range.end = min(count, range.begin + range.each);
  return range;
}

// For sources without alignment: slow, right.
__device__ __forceinline__ void copy_bytes_here(uint8_t* to, const uint8_t* from, int bytes) {
#pragma unroll 1
  for (int i = 0; i < bytes; ++i) to[i] = from != nullptr ? from[i] : 0;
}

// The same as a function of its own, which takes no registers where it is not called.
__device__ __noinline__ inline void copy_bytes(uint8_t* to, const uint8_t* from, int bytes) {
  copy_bytes_here(to, from, bytes);
}

__device__ __forceinline__ const uint8_t* shuffle_pointer(const uint8_t* pointer, int lane) {
  return reinterpret_cast<const uint8_t*>(__shfl_sync(~0U, reinterpret_cast<unsigned long long>(pointer), lane));
}

// Eight elements of 16 bits that may lie anywhere.
__device__ __forceinline__ uint4 load_elements(const uint16_t* from) {
  uint32_t w[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) w[j] = from[2 * j] | static_cast<uint32_t>(from[2 * j + 1]) << 16;
  return {w[0], w[1], w[2], w[3]};
}

// Copies kTimes pieces of kLanes * 16 bytes of each of a warp's 16 tokens; 32 / kLanes tokens at a time. `row`: of the
// token of this lane, null: zeros, `anywhere` is then an address that may be read.
template <int kLanes, int kTimes, int kStride>
__device__ __forceinline__ void copy_pieces(const uint8_t* row, uint8_t* rows, int offset, const uint8_t* anywhere) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  constexpr int kAtOnce = 32 / kLanes;
  const int mine = offset + 16 * (lane % kLanes);
#pragma unroll
  for (int first = 0; first < kGroupTokens; first += kAtOnce) {
    const int token = first + lane / kLanes;
    const uint8_t* from = shuffle_pointer(row, token % 32);
    const bool zero = from == nullptr;
    from = zero ? anywhere : from + mine;
    const uint32_t to = smem_address(rows + token * kStride + mine);
    if (kAtOnce > kGroupTokens && token >= kGroupTokens) break;
#pragma unroll
    for (int i = 0; i < kTimes; ++i) copy_async_16(to + 16 * kLanes * i, from + 16 * kLanes * i, zero);
  }
}

// Copies a scale row to `to`, or zeroes it.
template <int kBytes>
__device__ __forceinline__ void copy_scales(const uint8_t* from, uint32_t to, const uint8_t* anywhere) {
  const bool zero = from == nullptr;
  if (zero) from = anywhere;
  if constexpr (kBytes == 8) copy_async_8(to, from, zero);
  if constexpr (kBytes >= 16) copy_async_16(to, from, zero);
  if constexpr (kBytes == 32) copy_async_16(to + 16, from + 16, zero);
}

// Null if there is no token.
template <typename Format>
__device__ __forceinline__ const uint8_t* scales_of(const Source<Format>& source) {
  if (source.row == nullptr) return nullptr;
  return Format::kInnerScales >= 0 ? source.row + Format::kInnerScales : source.scales;
}

// A warp brings the tokens of its group of each tile into shared memory, one tile ahead of their use; missing tokens
// become zeros. If two warps share a group each copies the half of a row that it multiplies with its queries, and both
// copy the scales, so that up to 16 heads need no barrier before QK^T.
template <typename Format, int kHeads, int kGroups>
class Fetcher {
 public:
  using Layout = SharedLayout<Format, kHeads, kGroups>;

  __device__ __forceinline__ Fetcher(const DecodeArguments& a, const Place& place, const TokenRange& range,
                                     uint8_t* shared, int warp, int lane)
      : a_(a),
        place_(place),
        range_(range),
        shared_(shared),
        lane_(lane),
        group_(warp % kGroups),
        sharer_(warp / kGroups) {
    index_ = load(0);
  }

  // Starts copying the next tile. `valid`: bit t is set if token t of the group is there.
  __device__ __forceinline__ void next(uint32_t& valid) {
    const int32_t first = range_.begin + tile_ * Layout::kTileTokens;
    if (first < range_.end) {
      const Source<Format> source =
          find_token<Format>(a_, range_, first + kGroupTokens * group_ + lane_, lane_ < kGroupTokens ? index_ : -1);
      valid = __ballot_sync(~0U, source.row != nullptr);
      index_ = load(tile_ + 1);
      const int stage = tile_ % Layout::kStages;
      uint8_t* rows = shared_ + Layout::kRows + stage * Layout::kRowsBytes + kGroupTokens * group_ * Format::kRowStride;
      uint8_t* scales = shared_ + Layout::kScales + stage * Layout::kScalesOfStage + sharer_ * Layout::kScalesBytes +
                        kGroupTokens * group_ * Format::kStoredScales;
      if (__all_sync(~0U, source.aligned)) {
        copy(source, rows, scales);
      } else if (lane_ < kGroupTokens) {
        constexpr int kHalf = kSharers<kGroups> == 1 ? Format::kRowBytes : Format::kSecondHalf;
        uint8_t* row = rows + lane_ * Format::kRowStride;
        const uint8_t* from = source.row;
        if (sharer_ == 0) {
          copy_bytes(row, from, kHalf);
        } else {
          copy_bytes(row + kHalf, from == nullptr ? from : from + kHalf, Format::kRowBytes - kHalf);
        }
        copy_bytes(scales + lane_ * Format::kStoredScales, scales_of(source), Format::kStoredScales);
      }
    }
    ++tile_;
  }

 private:
  __device__ __forceinline__ int32_t load(int32_t tile) const {
    if (lane_ >= kGroupTokens) return -1;
    return load_index<Format>(a_, place_, range_,
                              range_.begin + tile * Layout::kTileTokens + kGroupTokens * group_ + lane_);
  }

  __device__ __forceinline__ void copy(const Source<Format>& source, uint8_t* rows, uint8_t* scales) const {
    constexpr int kFirst = Format::kSecondHalf;                     // the first half ends here
    constexpr int kMore = Format::kRowBytes - Format::kSecondPart;  // of the second half, behind the scales
    constexpr int kStride = Format::kRowStride;
    const uint8_t* anywhere = a_.main.pool.base;
    static_assert(kFirst % 128 == 0);
    // As much of a token as possible in one instruction: each token is a page of its own for the address translation.
    if constexpr (kSharers<kGroups> == 1) {
      copy_pieces<(2 * kFirst < 512 ? 2 * kFirst / 16 : 32), (2 * kFirst + 511) / 512, kStride>(source.row, rows, 0,
                                                                                                anywhere);
    } else {
      copy_pieces<(kFirst < 512 ? kFirst / 16 : 32), (kFirst + 511) / 512, kStride>(
          source.row, rows, sharer_ == 0 ? 0 : kFirst, anywhere);
    }
    if ((kSharers<kGroups> == 1 || sharer_ == 1) && kMore > 0) {
      if constexpr (kMore >= 128) copy_pieces<8, kMore / 128, kStride>(source.row, rows, Format::kSecondPart, anywhere);
      if constexpr (kMore % 128 != 0) {
        copy_pieces<kMore % 128 / 16, 1, kStride>(source.row, rows, Format::kRowBytes - kMore % 128, anywhere);
      }
    }
    if constexpr (Format::kStoredScales > 0) {
      if (lane_ < kGroupTokens) {
        copy_scales<Format::kStoredScales>(scales_of(source), smem_address(scales + lane_ * Format::kStoredScales),
                                           a_.main.pool.base);
      }
    }
  }

  const DecodeArguments& a_;
  const Place& place_;
  const TokenRange& range_;
  uint8_t* shared_;
  const int lane_, group_, sharer_;
  int32_t tile_ = 0;
  int32_t index_;
};

}  // namespace flashmla::cuda
