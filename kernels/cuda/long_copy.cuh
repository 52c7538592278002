// The copying warps of the kernel for many tokens: a bulk copy a token.
#pragma once

#include "kernels/cuda/long_layout.cuh"
#include "kernels/cuda/turns.cuh"

namespace flashmla::cuda {

// One thread before the block's first barrier.
template <typename Layout>
__device__ __forceinline__ void init_stages(uint8_t* shared) {
  // Scales that lie apart come by copies of the lanes.
  constexpr int kArrivals = Layout::kHalves * (Layout::kScalesInRows ? 1 : 1 + 32);
#pragma unroll
  for (int stage = 0; stage < Layout::kStages; ++stage) {
    barrier_init(smem_address(shared + Layout::kFilled + 8 * stage), kArrivals);
    barrier_init(smem_address(shared + Layout::kFree + 8 * stage), kWarps);
  }
}

// Brings a warp's half of a tile, a token a lane, to its place in a stage. Missing tokens become zeros, in the `groups`
// groups that the tile has.
template <typename Layout>
__device__ __forceinline__ void copy_tokens(const Source<typename Layout::Format>& source, int groups,
                                            const uint8_t* anywhere, uint8_t* shared, uint32_t stage, int half,
                                            int lane) {
  using Format = typename Layout::Format;
  uint8_t* const to = shared + stage * Layout::kStageBytes;
  const uint32_t filled = smem_address(shared + Layout::kFilled + 8 * stage);
  const bool there = source.row != nullptr;
  const uint32_t present = __ballot_sync(~0U, there);
  const bool aligned = __all_sync(~0U, source.aligned);
  uint8_t* const rows = to + Layout::kRows + 32 * half * Format::kRowStride;
  uint8_t* const row = rows + lane * Format::kRowStride;
  uint8_t* const scales = to + Layout::kScales + (32 * half + lane) * Format::kScaleBytes;
  if (lane == 0) write(to + Layout::kValid + 4 * half, present);
  const uint32_t all_missing = __ballot_sync(~0U, !there && 32 * half + lane < kGroupTokens * groups);
#pragma unroll 1
  for (uint32_t missing = all_missing; missing != 0; missing &= missing - 1) {
    uint8_t* const zeros = rows + (__ffs(static_cast<int>(missing)) - 1) * Format::kRowStride;
#pragma unroll 1
    for (int i = 16 * lane; i < Format::kRowBytes; i += 512) write(zeros + i, uint4{0, 0, 0, 0});
  }
  if (!aligned) {
    if (there) copy_bytes_here(row, source.row, Format::kRowBytes);
    if (!Layout::kScalesInRows) copy_bytes_here(scales, scales_of(source), Format::kScaleBytes);
  }
  // A bulk copy may come to the same place in another round.
  if (!aligned || all_missing != 0) fence_async_proxy();
  __syncwarp();
  if (lane == 0) barrier_arrive_expect(filled, aligned ? __popc(present) * Format::kRowBytes : 0);
  if (aligned && there) copy_bulk(smem_address(row), source.row, Format::kRowBytes, filled);
  if constexpr (!Layout::kScalesInRows) {
    if (aligned) copy_scales<Format::kScaleBytes>(scales_of(source), smem_address(scales), anywhere);
    barrier_arrive_after_copies(filled);
  }
}

// A copying warp copies halves of the tiles of the block's rows in their order; pairs of warps take tiles in turn.
template <typename Layout>
class TileCopier {
 public:
  __device__ __forceinline__ TileCopier(const DecodeArguments& a, int copier, int lane)
      : half_(copier % Layout::kHalves),
        lane_(lane),
        tile_(copier / Layout::kHalves),
        cursor_(a, tile_, 32 * half_ + lane),
        index_(cursor_.load()) {}

  __device__ __forceinline__ void run(const uint8_t* anywhere, uint8_t* shared) {
#pragma unroll 1
    for (; !cursor_.at_end(); tile_ += kPairs) {
      const auto source = cursor_.find(index_);
      const int groups = cursor_.groups();
      cursor_.next();
      index_ = cursor_.load();
      const uint32_t stage = tile_ % Layout::kStages, round = tile_ / Layout::kStages;
      if (round > 0) barrier_wait_patiently(smem_address(shared + Layout::kFree + 8 * stage), (round - 1) & 1);
      // All blocks start at the same time: their first tiles are to arrive before anyone's next ones.
      if (round == 0 && stage >= Layout::kTeams) {
        barrier_wait_briefly(smem_address(shared + Layout::kFilled + 8 * (stage - Layout::kTeams)), 0);
      }
      copy_tokens<Layout>(source, groups, anywhere, shared, stage, half_, lane_);
    }
    copy_async_commit();
    copy_async_wait<0>();
  }

 private:
  static constexpr int kPairs = Layout::kCopiers / Layout::kHalves;
  const int half_, lane_;
  uint32_t tile_;
  GroupCursor<Layout, Layout::kGroups, kPairs> cursor_;
  int32_t index_;
};

}  // namespace flashmla::cuda
