// The copying warps of the warpgroup kernel.
#pragma once

#include "kernels/cuda/turns.cuh"
#include "kernels/cuda/warpgroup_layout.cuh"

namespace flashmla::cuda {

// One warp before the block's first barrier.
template <typename Layout>
__device__ __forceinline__ void init_slots(uint8_t* shared, int lane) {
  for (int slot = lane; slot < Layout::kSlots; slot += 32) {
    barrier_init(smem_address(shared + Layout::kFilled + 8 * slot), 32 + 1);
    barrier_init(smem_address(shared + Layout::kFree + 8 * slot), Layout::kTeamWarps);
  }
}

// Copies the rows of a group, without the scales inside them. kAll: every token is there.
template <typename Format, bool kAll>
__device__ __forceinline__ void copy_rows(const uint8_t* row, uint8_t* rows, const uint8_t* anywhere, int lane) {
  constexpr int kFirst = Format::kInnerScales >= 0 ? Format::kInnerScales : Format::kRowBytes;
  constexpr int kRest = kFirst % 512 + (Format::kInnerScales >= 0 ? Format::kRowBytes - Format::kSecondPart : 0);
  constexpr int kRestPlace = Format::kRowBytes - kRest;
  static_assert(kFirst >= 512 && kFirst < 1024 && (Format::kInnerScales < 0 || kFirst == 512));
  // As much of a token as possible in one instruction: each token is a page of its own for the address translation.
  const uint32_t to = smem_address(rows) + 16 * lane;
#pragma unroll
  for (int token = 0; token < kGroupTokens; ++token) {
    const uint8_t* from = shuffle_pointer(row, token);
    const bool zero = !kAll && from == nullptr;
    copy_async_16(to + token * Format::kRowStride, zero ? anywhere : from + 16 * lane, zero);
  }
  if constexpr (kRest > 0) {
    constexpr int kLanes = kRest / 16;
    constexpr int kAtOnce = 32 / kLanes;
    static_assert(32 % kLanes == 0);
#pragma unroll
    for (int token = 0; token < kGroupTokens; token += kAtOnce) {
      const int mine = token + lane / kLanes;
      const int place = kRestPlace + 16 * (lane % kLanes);
      const uint8_t* from = shuffle_pointer(row, mine);
      const bool zero = !kAll && from == nullptr;
      copy_async_16(smem_address(rows + mine * Format::kRowStride + place), zero ? anywhere : from + place, zero);
    }
  }
}

// Fills a slot with the tokens of lanes 0 to 15. Missing tokens become zeros.
template <typename Layout>
__device__ __forceinline__ void copy_group(const DecodeArguments& a, const Source<typename Layout::Format>& source,
                                           int number, uint8_t* shared, int lane) {
  using Format = typename Layout::Format;
  const uint8_t* anywhere = a.main.pool.base;
  const int slot = Layout::ring().slot(number);
  const int round = Layout::ring().round(number);
  if (round > 0) barrier_wait_patiently(smem_address(shared + Layout::kFree + 8 * slot), (round - 1) & 1);
  uint8_t* rows = shared + Layout::kRows + slot * Layout::kSlotBytes;
  uint8_t* scales = shared + Layout::kScales + slot * Layout::kSlotScales + lane * Format::kStoredScales;
  const uint32_t filled = smem_address(shared + Layout::kFilled + 8 * slot);
  const uint32_t valid = __ballot_sync(~0U, source.row != nullptr) & 0xffffU;
  if (__all_sync(~0U, source.aligned)) {
    if (valid == 0xffffU) {
      copy_rows<Format, true>(source.row, rows, anywhere, lane);
    } else {
      copy_rows<Format, false>(source.row, rows, anywhere, lane);
    }
    if (lane < kGroupTokens) {
      copy_scales<Format::kStoredScales>(scales_of(source), smem_address(scales), anywhere);
    }
  } else if (lane < kGroupTokens) {
    copy_bytes_here(rows + lane * Format::kRowStride, source.row, Format::kRowBytes);
    copy_bytes_here(scales, scales_of(source), Format::kStoredScales);
  }
  if (lane == 0) write(shared + Layout::kValid + 4 * slot, valid);
  // For the bytes that were stored above, and for those that are on their way.
  if (lane == 0) barrier_arrive(filled);
  barrier_arrive_after_copies(filled);
}

// Copies the groups of the block's rows in their order; the warps take pairs in turn.
template <typename Layout>
__device__ __forceinline__ void copy_groups(const DecodeArguments& a, uint8_t* shared, int warp, int lane) {
  using Format = typename Layout::Format;
  if (warp >= Layout::kCopiers) return;
  GroupCursor<Layout, kPair, Layout::kCopiers> cursor(a, warp, lane);
  int32_t index = cursor.load();
#pragma unroll 1
  while (!cursor.at_end()) {
    Source<Format> source = cursor.find(index);
    const int number = cursor.number(), groups = cursor.groups();
    cursor.next();
    index = cursor.load();
#pragma unroll 1
    for (int i = 0; i < groups; ++i) {
      copy_group<Layout>(a, source, number + i, shared, lane);
      source = {shuffle_pointer(source.row, lane + kGroupTokens), shuffle_pointer(source.scales, lane + kGroupTokens),
                __shfl_sync(~0U, static_cast<int>(source.aligned), lane + kGroupTokens) != 0};
    }
  }
  copy_async_commit();
  copy_async_wait<0>();
}

}  // namespace flashmla::cuda
