// From the results of the blocks of a cluster to those of the row: each block adds up the same part of them from all.
#pragma once

#include "kernels/cuda/short_softmax.cuh"
#include "kernels/cuda/short_value.cuh"

namespace flashmla::cuda {

// Heads of a warp in the softmax; there may be more warps than heads.
template <typename Layout>
constexpr int kHeadsOfWarp = (Layout::kHeads + Layout::kMergeWarps - 1) / Layout::kMergeWarps;
template <typename Layout>
__device__ __forceinline__ bool has_head(int warp) {
  return Layout::kHeads >= Layout::kMergeWarps || warp < Layout::kHeads;
}

// The first piece of 4 dimensions that block `rank` adds up.
template <typename Layout>
__device__ __forceinline__ int first_piece(const DecodeArguments& a, int rank) {
  return static_cast<int>(quotient(Layout::kQuads * rank + a.splits.divisor - 1, a.splits));
}

// The first dimension of piece `piece` of a chunk's 16. A thread has two of them side by side, and the lanes' first
// ones lie together, and their second ones; or, with half a chunk, one.
template <typename Layout>
__device__ __forceinline__ int dimension_of_piece(int piece) {
  return Layout::kWarpsOfChunk == 1 ? 8 * (piece % 8) + 4 * (piece / 8) : 4 * piece;
}

// Of the pieces of one source, in bytes; the first block has the largest part there is.
template <typename Layout>
__device__ __forceinline__ int source_stride(const DecodeArguments& a) {
  if (a.splits.divisor >= Layout::kFixedSplits) return Layout::kSourceBytes;
  return 16 * first_piece<Layout>(a, 1);
}

// One thread, before the cluster's first barrier.
template <typename Layout>
__device__ __forceinline__ void expect_summaries(const DecodeArguments& a, uint8_t* shared) {
  const uint32_t summarized = smem_address(shared + Layout::kSummarized);
  barrier_init(summarized, 1);
  barrier_arrive_expect(summarized, a.splits.divisor * Layout::kHeads * 8);
}
template <typename Layout>
__device__ __forceinline__ void expect_pieces(const DecodeArguments& a, uint8_t* shared, int rank) {
  const uint32_t arrived = smem_address(shared + Layout::kArrived);
  const int pieces = first_piece<Layout>(a, rank + 1) - first_piece<Layout>(a, rank);
  barrier_init(arrived, 1);
  barrier_arrive_expect(arrived, a.splits.divisor * pieces * 16);
}

// Where a thread's results go; worked out while there is nothing else to do.
template <typename Layout>
class Sender {
 public:
  __device__ __forceinline__ Sender(const DecodeArguments& a, uint8_t* shared, int rank, int warp, int lane)
      : tells_(lane < static_cast<int>(a.splits.divisor) && has_head<Layout>(warp)) {
    const int splits = static_cast<int>(a.splits.divisor);
    const uint32_t to_all = smem_address(shared + Layout::kResults) + rank * source_stride<Layout>(a);
    const uint32_t arrived = smem_address(shared + Layout::kArrived);
    const int chunk = Layout::chunk_of_warp(warp), half = Layout::half_of_warp(warp);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        const int head = 8 * n + 2 * (lane & 3) + i / kPiecesOfHead;
        const int of_chunk = 8 * (half + i % kPiecesOfHead) + (lane >> 2);
        const int piece = (chunk * Layout::kHeads + head) * (kChunkDims / 4) + of_chunk;
        const int owner = piece * splits / Layout::kQuads;
        to_[n][i] = map_to_rank(to_all + 16 * (piece - first_piece<Layout>(a, owner)), owner);
        arrived_[n][i] = map_to_rank(arrived, owner);
      }
    }
    const int to = min(lane, splits - 1);
    summary_ = map_to_rank(smem_address(shared + Layout::kSummaries) + 8 * (Layout::kMostSplits * warp + rank), to);
    summarized_ = map_to_rank(smem_address(shared + Layout::kSummarized), to);
  }

  // Of head warp + kMergeWarps * i.
  __device__ __forceinline__ void tell(int i, const HeadSums& sums) const {
    if (!tells_) return;
    store_cluster(summary_ + 8 * Layout::kMostSplits * Layout::kMergeWarps * i, float2{sums.maximum, sums.sum},
                  summarized_);
  }

  __device__ __forceinline__ void send(const ShortResults<Layout>& results, float by) const {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        const int m = 2 * (i % kPiecesOfHead), k = i / kPiecesOfHead;
        store_cluster(to_[n][i],
                      {results[m][n][k] * by, results[m][n][2 + k] * by, results[m + 1][n][k] * by,
                       results[m + 1][n][2 + k] * by},
                      arrived_[n][i]);
      }
    }
  }

 private:
  static constexpr int kTiles = Layout::kHeads / 8;
  static constexpr int kPiecesOfHead = 2 / Layout::kWarpsOfChunk;
  static constexpr int kPieces = 2 * kPiecesOfHead;  // of 8 heads
  const bool tells_;
  uint32_t to_[kTiles][kPieces], arrived_[kTiles][kPieces];
  uint32_t summary_, summarized_;
};

// What the results of head h of each block are multiplied with, when all have told: a warp.
template <typename Layout>
__device__ __forceinline__ HeadSums share_head(const DecodeArguments& a, uint8_t* shared, int h, float sink, int lane) {
  float2 own = {kNoMaximum, 0};
  if (lane < static_cast<int>(a.splits.divisor)) {
    own = read<float2>(shared + Layout::kSummaries + 8 * (Layout::kMostSplits * h + lane));
  }
  const float maximum = warp_maximum(own.x);
  const float by = exp2_fast(own.x - maximum);
  float sum = own.y * by;
#pragma unroll
  for (int lanes = kMaxSplits / 2; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(~0U, sum, lanes);
  const float whole = sum + exp2_fast(sink - maximum);
  const float share = sum == 0 ? 0 : by * __fdividef(1 << kShortResultBits, whole);
  if (lane < Layout::kMostSplits) write(shared + Layout::kShares + 4 * (Layout::kMostSplits * h + lane), share);
  return {maximum, sum};
}

__device__ __forceinline__ void add_product(float2& sum, const float2& v, float by) {
  sum.x = fmaf(v.x, by, sum.x), sum.y = fmaf(v.y, by, sum.y);
}
__device__ __forceinline__ void add_product(float4& sum, const float4& v, float by) {
  sum.x = fmaf(v.x, by, sum.x), sum.y = fmaf(v.y, by, sum.y), sum.z = fmaf(v.z, by, sum.z),
  sum.w = fmaf(v.w, by, sum.w);
}

// Adds up this block's pieces, when shares are there. A thread has pieces, or halves of them: a float4 or a float2.
template <typename Layout, typename Values>
class Merge {
 public:
  using Format = typename Layout::Format;

  __device__ __forceinline__ Merge(const DecodeArguments& a, const Place& place, uint8_t* shared, int rank)
      : a_(a),
        place_(place),
        shared_(shared),
        splits_(static_cast<int>(a.splits.divisor)),
        first_(kItems * first_piece<Layout>(a, rank)),
        count_(kItems * first_piece<Layout>(a, rank + 1) - first_),
        item_(item_of(static_cast<int>(threadIdx.x))) {}

  __device__ __forceinline__ void run() {
    barrier_wait_cluster(smem_address(shared_ + Layout::kArrived), 0);
#pragma unroll 1
    for (int number = static_cast<int>(threadIdx.x); number < count_;) {
      if (item_.real) item_.to.store(item_.dimension, add_up(number));
      number += 32 * Layout::kMergeWarps;
      if (number < count_) item_ = item_of(number);
    }
  }

 private:
  static constexpr int kItems = sizeof(float4) / sizeof(Values);  // of a piece
  static constexpr int kItemsOfChunk = kItems * kChunkDims / 4;   // for one head

  struct Item {
    Destination to;
    bool real;
    int head, dimension;
  };

  __device__ __forceinline__ Item item_of(int number) const {
    const int index = first_ + min(number, count_ - 1);
    const int h = index / kItemsOfChunk % Layout::kHeads;
    const Head head = head_of<Format>(a_, place_, h);
    const int piece = index % kItemsOfChunk / kItems;
    Item item{Destination::of<Format>(a_, place_, head, h), head.real, h,
              kChunkDims * (index / (kItemsOfChunk * Layout::kHeads)) + dimension_of_piece<Layout>(piece) +
                  4 / kItems * (index % kItems)};
    item.to.out = const_cast<uint16_t*>(in_register(item.to.out));
    return item;
  }

  __device__ __forceinline__ Values add_up(int number) const {
    const uint8_t* shares = shared_ + Layout::kShares + 4 * Layout::kMostSplits * item_.head;
    const uint8_t* part = shared_ + Layout::kResults + sizeof(Values) * number;
    // No switch: its table would have to come from memory.
    if constexpr (kItems == 1) {
      if (splits_ < 4) return add_up_of<2, 4>(shares, part, source_stride<Layout>(a_));
      return add_up_of<4, 8>(shares, part, source_stride<Layout>(a_));
    } else {
      if (splits_ == 8) return add_up_of<8, 8>(shares, part, Layout::kSourceBytes);
      if (splits_ == 16) return add_up_of<16, 16>(shares, part, Layout::kSourceBytes);
      if (splits_ == 10) return add_up_of<10, 10>(shares, part, Layout::kSourceBytes);
      return add_up_of<9, 16>(shares, part, Layout::kSourceBytes);
    }
  }

  // Of at least kLeast sources, and at most kMost.
  template <int kLeast, int kMost>
  __device__ __forceinline__ Values add_up_of(const uint8_t* shares, const uint8_t* part, int stride) const {
    float share[(kMost + 3) / 4 * 4];
#pragma unroll
    for (int s = 0; s < kMost; s += 4) {
      const auto four = read<float4>(shares + 4 * s);
      share[s] = four.x, share[s + 1] = four.y, share[s + 2] = four.z, share[s + 3] = four.w;
    }
    Values total = {};
#pragma unroll
    for (int s = 0; s < kMost; ++s) {
      if (s >= kLeast && s >= splits_) break;
      add_product(total, read<Values>(part + s * stride), share[s]);
    }
    return total;
  }

  const DecodeArguments& a_;
  const Place& place_;
  uint8_t* shared_;
  const int splits_, first_, count_;  // items
  Item item_;
};

// What is left when a block has told and sent: its part of the row's results.
template <typename Layout, typename Values>
__device__ __forceinline__ void finish_merge_by(const DecodeArguments& a, const Place& place, uint8_t* shared, int rank,
                                                const float (&sink)[kHeadsOfWarp<Layout>], int warp, int lane) {
  using Format = typename Layout::Format;
  Merge<Layout, Values> merge(a, place, shared, rank);
  barrier_wait_cluster(smem_address(shared + Layout::kSummarized), 0);
  HeadSums all[kHeadsOfWarp<Layout>];
#pragma unroll
  for (int i = 0; i < kHeadsOfWarp<Layout>; ++i) {
    if (!has_head<Layout>(warp)) break;
    all[i] = share_head<Layout>(a, shared, warp + Layout::kMergeWarps * i, sink[i], lane);
  }
  named_barrier(0, 32 * Layout::kMergeWarps);
  merge.run();
#pragma unroll
  for (int i = 0; i < kHeadsOfWarp<Layout>; ++i) {
    if (!has_head<Layout>(warp)) break;
    const int h = warp + Layout::kMergeWarps * i;
    const Head head = head_of<Format>(a, place, h);
    const bool mine = h - static_cast<int>(quotient(h, a.splits) * a.splits.divisor) == rank;
    if (mine && lane == 0 && head.real) {
      Destination::of<Format>(a, place, head, h).store_sums(all[i].maximum, all[i].sum);
    }
  }
}

template <typename Layout>
__device__ __forceinline__ void finish_merge(const DecodeArguments& a, const Place& place, uint8_t* shared, int rank,
                                             const float (&sink)[kHeadsOfWarp<Layout>], int warp, int lane) {
  // Few blocks have many pieces each.
  if (a.splits.divisor < Layout::kFixedSplits) {
    finish_merge_by<Layout, float4>(a, place, shared, rank, sink, warp, lane);
  } else {
    finish_merge_by<Layout, float2>(a, place, shared, rank, sink, warp, lane);
  }
}

}  // namespace flashmla::cuda
