// Tokens of a block with one tile into shared memory, one bulk copy each.
#pragma once

#include "kernels/cuda/fetch.cuh"
#include "kernels/cuda/short_layout.cuh"

namespace flashmla::cuda {

// A parameter in a register. Otherwise a choice between two parameters becomes a load from a chosen address, and those
// are slow: parameters are constants.
__device__ __forceinline__ int32_t in_register(int32_t value) {
  asm volatile("" : "+r"(value));
  return value;
}
__device__ __forceinline__ int64_t in_register(int64_t value) {
  asm volatile("" : "+l"(value));
  return value;
}
template <typename T>
__device__ __forceinline__ const T* in_register(const T* pointer) {
  asm volatile("" : "+l"(pointer));
  return pointer;
}

// As load_now(), for sources without alignment.
__device__ __forceinline__ uint2 load_bytes(const uint8_t* from) {
  uint64_t word = 0;
#pragma unroll 1
  for (int i = 0; i < 8; ++i) word |= static_cast<uint64_t>(from[i]) << (8 * i);
  return {static_cast<uint32_t>(word), static_cast<uint32_t>(word >> 32)};
}

// The row of token_of_row(): token 4x + (c + 2x) % 4 is row 4c + x.
__device__ __forceinline__ int row_of_token(int token) {
  const int x = token >> 2;
  return 4 * ((token + 2 * x) & 3) + x;
}

// Tokens of both selections of a row.
struct Counts {
  int32_t main, extra;
};

__device__ __forceinline__ Counts most_tokens(const DecodeArguments& a) {
  return {a.main.count, a.extra.count};
}

// As they are in memory.
__device__ __forceinline__ Counts load_counts(const DecodeArguments& a, int32_t b) {
  Counts counts = most_tokens(a);
  if (a.main.lengths != nullptr) counts.main = load_now(a.main.lengths + b);
  if (a.extra.lengths != nullptr) counts.extra = load_now(a.extra.lengths + b);
  return counts;
}

__device__ __forceinline__ Counts within(const Counts& counts, const Counts& most) {
  return {min(max(counts.main, 0), most.main), min(max(counts.extra, 0), most.extra)};
}

// The part of them that block `shard` of those that share the row attends to.
__device__ __forceinline__ TokenRange share_of(const DecodeArguments& a, const Counts& counts, int32_t shard) {
  const int32_t count = counts.main + counts.extra;
  TokenRange range{};
  range.main_count = counts.main;
  range.each = static_cast<int32_t>(quotient(count + a.shards.divisor - 1, a.shards));
  range.begin = min(count, shard * range.each);
  range.end = min(count, range.begin + range.each);
  return range;
}

// Bulk copies of one warp follow each other slowly: of n warps lane l of warp w has token nl + w.
template <typename Layout>
class ShortTokens {
 public:
  using Format = typename Layout::Format;
  static constexpr int kWarps = Layout::kCopyWarps;

  __device__ __forceinline__ ShortTokens(uint8_t* shared, int warp, int lane)
      : shared_(shared), token_(kWarps * lane + warp), warp_(warp), lane_(lane) {}

  // Asks for lengths and indices at the same time: most calls have as many tokens as they can.
  __device__ __forceinline__ void ask(const DecodeArguments& a, const Place& place, int32_t shard) {
    const Counts most = most_tokens(a);
    counts_ = load_counts(a, place.b);
    guess_ = share_of(a, most, shard);
    main_row_ = in_register(a.main.indices + place.b * a.main.batch_stride + place.token * a.main.query_stride);
    extra_row_ = in_register(a.extra.indices + place.b * a.extra.batch_stride + place.token * a.extra.query_stride);
    index_ = load_index(guess_);
    choose_pool(a, guess_);
  }

  // Starts the copies; what has no token becomes zeros. Others see both after the next barrier and kCopied.
  __device__ __forceinline__ void start(const DecodeArguments& a, int32_t shard) {
    range_ = share_of(a, within(counts_, most_tokens(a)), shard);
    if (range_.main_count != guess_.main_count || range_.begin != guess_.begin || range_.end != guess_.end) {
      index_ = load_index(range_);
      choose_pool(a, range_);
    }
    const bool there = index_ >= 0 && index_ < slots_;
    const uint32_t valid = __ballot_sync(~0U, there);
    if (lane_ == 0) write(shared_ + Layout::kValid + 4 * warp_, valid);
    if (Layout::kFirstQueryWarp > 0 && warp_ == 0 && lane_ == 0) write(shared_ + Layout::kTokenGroups, groups());
    const uint32_t page = quotient(index_, page_size_);
    const uint32_t offset = index_ - page * page_size_.divisor;
    const uint8_t* const start = base_ + page * page_stride_;
    const uint8_t* const row = start + offset * Format::kRowBytes;
    if constexpr (!Layout::kScalesInRows) {
      static_assert(Format::kScaleBytes == 8);
      const uint8_t* const scales =
          start + int64_t{page_size_.divisor} * Format::kRowBytes + offset * Format::kScaleBytes;
      scales_ = {0, 0};
      if (there) {
        if (aligned_) {
          scales_ = load_now(reinterpret_cast<const uint2*>(scales));
        } else {
          scales_ = load_bytes(scales);
        }
      }
    }
    uint8_t* const to = shared_ + Layout::kRows + token_ * Format::kRowStride;
    const bool whole = __all_sync(~0U, aligned_ || !there);
    if (lane_ % kStepLanes == 0 && lane_ < kStepLanes * Layout::kSteps) {
      const uint32_t of_step = valid >> lane_ & ((1U << kStepLanes) - 1);
      barrier_arrive_expect(step_barrier(), whole ? __popc(of_step) * Format::kRowBytes : 0);
    }
    __syncwarp();
    if constexpr (kLeavesSome) source_ = whole && there ? row : nullptr;
    if (whole && there && (!kLeavesSome || lane_ < kStepLanes)) copy(row);
    if (!whole && there) copy_bytes_here(to, row, Format::kRowBytes);
#pragma unroll 1
    for (uint32_t missing = ~valid & kLanes; missing != 0; missing &= missing - 1) {
      uint8_t* const zeros = shared_ + Layout::kRows + 16 * lane_ +
                             (kWarps * (__ffs(static_cast<int>(missing)) - 1) + warp_) * Format::kRowStride;
      write(zeros, uint4{0, 0, 0, 0});
      if (16 * lane_ < Format::kRowBytes - 512) write(zeros + 512, uint4{0, 0, 0, 0});
    }
  }

  // The copies that start() leaves for later, behind the block's barrier: others have the first tokens to work on.
  __device__ __forceinline__ void finish() const {
    if constexpr (kLeavesSome) {
      if (source_ != nullptr && lane_ >= kStepLanes) copy(source_);
    }
  }

  // Before the barrier behind which others read them.
  __device__ __forceinline__ void store_scales() const {
    if constexpr (!Layout::kScalesInRows) {
      if ((kLanes >> lane_ & 1) == 0) return;
      uint8_t* const to =
          shared_ + Layout::kScales + token_ / kGroupTokens * kGroupTokens + row_of_token(token_ % kGroupTokens);
#pragma unroll
      for (int i = 0; i < kValueChunks - 1; ++i) {
        const uint32_t word = i < 4 ? scales_.x : scales_.y;
        write(to + i * Layout::kTileTokens, static_cast<uint8_t>(word >> (8 * (i & 3))));
      }
    }
  }

  // Groups of the block that have tokens.
  __device__ __forceinline__ int groups() const {
    return (range_.end - range_.begin + kGroupTokens - 1) / kGroupTokens;
  }

 private:
  static constexpr int kStepLanes = Layout::kStepGroups * kGroupTokens / kWarps;
  static constexpr bool kLeavesSome = Layout::kFirstQueryWarp > 0;
  static constexpr uint32_t kLanes = ~0U >> (32 - Layout::kTileTokens / kWarps);  // that have a token

  __device__ __forceinline__ uint32_t step_barrier() const {
    return smem_address(shared_ + Layout::kCopied + 8 * (static_cast<uint32_t>(lane_) / kStepLanes));
  }

  // Starts the copy of the lane's token.
  __device__ __forceinline__ void copy(const uint8_t* row) const {
    copy_bulk(smem_address(shared_ + Layout::kRows + token_ * Format::kRowStride), row, Format::kRowBytes,
              step_barrier());
  }

  // The pool of the lane's token.
  __device__ __forceinline__ void choose_pool(const DecodeArguments& a, const TokenRange& range) {
    const bool extra = range.begin + token_ >= range.main_count;
    const Pool &main = a.main.pool, &other = a.extra.pool;
    const auto size = [](uint32_t x) { return static_cast<uint32_t>(in_register(static_cast<int32_t>(x))); };
    base_ = extra ? in_register(other.base) : in_register(main.base);
    page_stride_ = extra ? in_register(other.page_stride) : in_register(main.page_stride);
    slots_ = extra ? in_register(other.num_slots) : in_register(main.num_slots);
    page_size_ = {extra ? size(other.page_size.divisor) : size(main.page_size.divisor),
                  extra ? size(other.page_size.multiplier) : size(main.page_size.multiplier),
                  extra ? size(other.page_size.shift) : size(main.page_size.shift)};
    aligned_ = extra ? other.aligned : main.aligned;
  }

  __device__ __forceinline__ int32_t load_index(const TokenRange& range) const {
    const int32_t position = range.begin + token_;
    const bool extra = position >= range.main_count;
    const int32_t* const from = extra ? extra_row_ - range.main_count : main_row_;
    int32_t index = -1;
    if (position < range.end) index = load_now(from + position);
    return index;
  }

  uint8_t* shared_;
  const int token_, warp_, lane_;
  const int32_t *main_row_, *extra_row_;
  Counts counts_;
  TokenRange guess_, range_;
  int32_t index_;
  // Of its pool.
  const uint8_t* base_;
  int64_t page_stride_, slots_;
  Divisor page_size_;
  bool aligned_;
  uint2 scales_;
  const uint8_t* source_;  // null: nothing is copied
};

}  // namespace flashmla::cuda
