// Blocks that take rows in turn: which rows, and how their queries are on their way while the row before is finished.
#pragma once

#include "kernels/cuda/kernel.cuh"

namespace flashmla::cuda {

__device__ __forceinline__ int groups_of(const TokenRange& range) {
  return (range.end - range.begin + kGroupTokens - 1) / kGroupTokens;
}

// What the block works on in a row.
struct RowWork {
  Place place;
  TokenRange range;
};

// Of the row of cluster `cluster` of the grid.
template <typename Layout>
__device__ __forceinline__ RowWork work_of(const DecodeArguments& a, int cluster) {
  const Place place = place_of<Layout::kHeads>(a, cluster);
  return {place, token_range<typename Layout::Format>(
                     a, place.b, place.part * static_cast<int32_t>(a.splits.divisor) + cluster_rank())};
}

// A block has the rows of its cluster and of every one that many clusters later, as long as there are any.
__device__ __forceinline__ int all_clusters(const DecodeArguments& a) {
  return a.rows * static_cast<int>(a.parts.divisor);
}
__device__ __forceinline__ int launched_clusters(const DecodeArguments& a) {
  return static_cast<int>(quotient(gridDim.x, a.splits));
}

// What a copying warp does one after another: of the groups of a block's rows, kStep at a time, every kStride-th step.
template <typename Layout, int kStep, int kStride>
class GroupCursor {
 public:
  using Format = typename Layout::Format;

  // `first`: the first step. `token`: of those of a step, the one that this lane has.
  __device__ __forceinline__ GroupCursor(const DecodeArguments& a, int first, int token)
      : a_(a), token_(token), cluster_(cluster_index()), step_(first), work_(work_of<Layout>(a, cluster_)) {
    skip_rows();
  }

  __device__ __forceinline__ bool at_end() const { return cluster_ >= all_clusters(a_); }

  __device__ __forceinline__ void next() {
    step_ += kStride;
    skip_rows();
  }

  // The number of the first group, of all that the block copies, and how many there are: up to kStep.
  __device__ __forceinline__ int number() const { return groups_before_ + kStep * step_; }
  __device__ __forceinline__ int groups() const { return min(groups_of(work_.range) - kStep * step_, kStep); }

  // The index of the lane's token; -1: none.
  __device__ __forceinline__ int32_t load() const {
    return at_end() ? -1 : load_index<Format>(a_, work_.place, work_.range, position());
  }
  __device__ __forceinline__ Source<Format> find(int32_t index) const {
    return find_token<Format>(a_, work_.range, position(), index);
  }

 private:
  __device__ __forceinline__ int32_t position() const {
    return work_.range.begin + kStep * kGroupTokens * step_ + token_;
  }
  __device__ __forceinline__ void skip_rows() {
    while (true) {
      const int groups = groups_of(work_.range);
      const int steps = (groups + kStep - 1) / kStep;
      if (step_ < steps) return;
      step_ -= steps;
      groups_before_ += groups;
      cluster_ += launched_clusters(a_);
      if (at_end()) return;
      work_ = work_of<Layout>(a_, cluster_);
    }
  }

  const DecodeArguments& a_;
  const int token_;
  int cluster_, step_;
  int groups_before_ = 0;  // of the rows before
  RowWork work_;
};

// Brings the queries to the place where they will be converted; the warps take the heads in turn.
template <typename Layout>
__device__ __forceinline__ void start_queries(const DecodeArguments& a, const Place& place, uint8_t* shared, int warp,
                                              int lane) {
#pragma unroll 1
  for (int h = warp; h < Layout::kHeads; h += Layout::kWorkWarps) {
    const Head head = head_of<typename Layout::Format>(a, place, h);
    const uint16_t* q = a.q + at(a.q_stride, place.b, head);
#pragma unroll 1
    for (int p = lane; p < QueryConverter<Layout>::kPieces; p += 32) {
      uint8_t* to = shared + Layout::raw_query(h, p);
      if (a.q_aligned || !head.real) {
        copy_async_16(smem_address(to), head.real ? q + 8 * p : a.q, !head.real);
      } else {
        copy_bytes_here(to, reinterpret_cast<const uint8_t*>(q + 8 * p), 16);
      }
    }
  }
  copy_async_commit();
}

// Converts them there.
template <typename Layout>
__device__ __forceinline__ void finish_queries(const DecodeArguments& a, uint8_t* shared, int warp, int lane) {
  using Converter = QueryConverter<Layout>;
  copy_async_wait<0>();
  __syncwarp();
#pragma unroll 1
  for (int h = warp; h < Layout::kHeads; h += Layout::kWorkWarps) {
    // All of it is read before it is written to the same place.
    uint4 piece[Converter::kPerLane];
#pragma unroll
    for (int k = 0; k < Converter::kPerLane; ++k) {
      const int p = lane + 32 * k;
      piece[k] = p < Converter::kPieces ? read<uint4>(shared + Layout::raw_query(h, p)) : uint4{0, 0, 0, 0};
    }
    __syncwarp();
    Converter::store(a, shared, h, lane, piece);
  }
}

template <typename Layout>
__device__ __forceinline__ float sink_of(const DecodeArguments& a, const Place& place) {
  if (threadIdx.x >= Layout::kHeads || a.parts.divisor > 1) return -INFINITY;
  return load_sink(a, head_of<typename Layout::Format>(a, place, static_cast<int>(threadIdx.x)));
}

}  // namespace flashmla::cuda
