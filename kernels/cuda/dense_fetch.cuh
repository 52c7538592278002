// Dense decode on sm_90a: pages and queries into shared memory.
#pragma once

#include "kernels/cuda/dense_layout.cuh"
#include "kernels/cuda/dense_ptx.cuh"
#include "kernels/cuda/fetch.cuh"

namespace flashmla::cuda::dense {

// The pages of a call and how its blocks divide them. What a block needs first lies next to each other, for a block's
// first look at each part of its arguments takes half a microsecond.
struct Pages {
  CUtensorMap map;  // {dimension of a chunk, token, chunk, page}, boxes of box_tokens and the chunks of a slot
  const int32_t* lengths;
  const int32_t* table;
  int64_t table_stride;
  int64_t count;        // of the pool
  int32_t most_tokens;  // of a request
  int32_t box_tokens;   // 64, 32 or 16; divides the page size
  int32_t box_chunks;   // those of a slot where a box has all tokens of a tile, else 1
  int32_t table_pages;  // of a request
  int32_t heads_per_row;
  Divisor page_size;
  Divisor heads;       // of a query token
  Divisor row_blocks;  // blocks that share a request's rows
  Divisor splits, parts, shards;
};

// Which query a row of a block is.
struct RowOfTask {
  int32_t token, head;

  __device__ __forceinline__ RowOfTask(const Pages& pages, const Task& task, int row) {
    const int32_t index = task.first_row + row;
    token = static_cast<int32_t>(quotient(index, pages.heads));
    head = index - token * static_cast<int32_t>(pages.heads.divisor);
  }
};

// The block's barriers; a warp.
template <typename Layout>
__device__ __forceinline__ void init_barriers(uint32_t shared, int lane) {
  static_assert(Layout::kSlotCount <= 32);
  if (lane < Layout::kSlotCount) {
    barrier_init_unfenced(shared + Layout::kFull + 8 * lane, 1);
    barrier_init_unfenced(shared + Layout::kEmpty + 8 * lane, 4);
  }
  if (lane < Layout::kBuffers) {
    barrier_init_unfenced(shared + Layout::kWeightsFull + 8 * lane, 4);
    barrier_init_unfenced(shared + Layout::kWeightsEmpty + 8 * lane, 4 * Layout::kValueGroups);
  }
  barrier_init_fence();
  __syncwarp();
}

// The warp that copies: brings in slot after slot of tile after tile, as far ahead as there are free ones.
template <int kRows, int kChunks>
class Copier {
 public:
  using Layout = dense::Layout<kRows, kChunks>;

  __device__ __forceinline__ Copier(const Pages& pages, const Task& task, uint32_t shared, int lane)
      : pages_(pages), task_(task), shared_(shared), lane_(lane), next_(load_page(0)) {}

  __device__ __forceinline__ void run() {
    const int boxes = kTileTokens / pages_.box_tokens;  // of a slot: 1, 2 or 4
    const int batch = 32 / boxes;                       // tiles whose page numbers the lanes hold
    const int box_shift = 31 - __clz(pages_.box_tokens);
    RingPlace<Layout::kSlotCount> place;
    int32_t page = -1;
#pragma unroll 1
    for (int32_t tile = 0; tile < task_.tiles; ++tile) {
      const int index = tile % batch * boxes;
      if (index == 0) {
        page = next_;
        next_ = load_page((tile + batch) * boxes);
      }
      // Lane i has box i of the tile.
      const int32_t number = __shfl_sync(~0U, page, (index + lane_) & 31);
      const int32_t first = (task_.first_tile + tile) * kTileTokens + lane_ * pages_.box_tokens;
      const auto offset = static_cast<int32_t>(first - quotient(first, pages_.page_size) * pages_.page_size.divisor);
      // Bit i: tokens 8i.. have no page.
      const int32_t eighth = __shfl_sync(~0U, number, 8 * lane_ >> box_shift);
      const uint32_t missing = __ballot_sync(~0U, lane_ < kTileTokens / 8 && eighth < 0);
#pragma unroll 1
      for (int chunk = 0; chunk < kChunks; chunk += Layout::kSlotChunks) {
        barrier_wait(shared_ + Layout::kEmpty + 8 * place.index, place.parity ^ 1);
        const uint32_t full = shared_ + Layout::kFull + 8 * place.index;
        if (lane_ == 0) {
          if (chunk == 0) store_shared(shared_ + Layout::kMissing + 4 * place.index, missing);
          barrier_arrive_expect(full, Layout::kSlotBytes);
        }
        __syncwarp();
        if (lane_ < boxes) {
          const uint32_t to =
              shared_ + Layout::kSlots + Layout::kSlotBytes * place.index + lane_ * pages_.box_tokens * 128;
          for (int c = 0; c < Layout::kSlotChunks; c += pages_.box_chunks) {
            copy_box(to + c * kChunkBytes, &pages_.map, offset, chunk + c, number, full);
          }
        }
        __syncwarp();
        place.advance();
      }
    }
  }

 private:
  // The page of this lane's box behind box `first` of the block; -1: there is none.
  __device__ __forceinline__ int32_t load_page(int32_t first) const {
    const uint32_t position = static_cast<uint32_t>(task_.first_tile) * kTileTokens +
                              static_cast<uint32_t>(first + lane_) * static_cast<uint32_t>(pages_.box_tokens);
    // Unsigned: boxes that are looked up ahead may lie behind 2^31 tokens.
    if (position >= static_cast<uint32_t>(task_.count)) return -1;
    const int32_t number = pages_.table[task_.request * pages_.table_stride + quotient(position, pages_.page_size)];
    return number >= 0 && number < pages_.count ? number : -1;
  }

  const Pages& pages_;
  const Task& task_;
  const uint32_t shared_;
  const int lane_;
  int32_t next_;  // the lane's page of the next batch
};

// Queries as they are, rows behind the last one zero; by all warps but those that copy.
template <int kRows, int kChunks>
class QueryLoader {
 public:
  using Layout = dense::Layout<kRows, kChunks>;

  // Asks for them. Nothing of `task` but its place is looked at.
  __device__ __forceinline__ QueryLoader(const DecodeArguments& a, const Pages& pages, const Task& task, int thread)
      : thread_(thread) {
#pragma unroll
    for (int k = 0; k < kOfThread; ++k) {
      const int row = (thread + k * Layout::kWorkers) / kPieces;
      const int piece = (thread + k * Layout::kWorkers) % kPieces;
      piece_[k] = {0, 0, 0, 0};
      if (row >= min(task.rows, kRows)) continue;
      const RowOfTask place(pages, task, row);
      const uint16_t* q = a.q + task.request * a.q_stride.batch + place.token * a.q_stride.token +
                          place.head * a.q_stride.head + 8 * piece;
      if (a.q_aligned) {
        piece_[k] = __ldg(reinterpret_cast<const uint4*>(q));
      } else {
        piece_[k] = {q[0] | static_cast<uint32_t>(q[1]) << 16, q[2] | static_cast<uint32_t>(q[3]) << 16,
                     q[4] | static_cast<uint32_t>(q[5]) << 16, q[6] | static_cast<uint32_t>(q[7]) << 16};
      }
    }
  }

  // Puts them into shared memory, and how many tokens each row sees.
  __device__ __forceinline__ void store(const DecodeArguments& a, const Pages& pages, const Task& task,
                                        uint8_t* shared) const {
    if (thread_ < kRows) {
      const int32_t token = min(RowOfTask(pages, task, thread_).token, a.s_q - 1);
      write(shared + Layout::kVisible + 4 * thread_, task.count - (a.causal ? a.s_q - 1 - token : 0));
    }
#pragma unroll
    for (int k = 0; k < kOfThread; ++k) {
      const int row = (thread_ + k * Layout::kWorkers) / kPieces;
      const int piece = (thread_ + k * Layout::kWorkers) % kPieces;
      if (row >= kRows) continue;
      write(shared + Layout::kQuery + piece / 8 * Layout::kOperandBytes + row * 128 + ((piece ^ row) & 7) * 16,
            piece_[k]);
    }
    fence_async_proxy();
  }

 private:
  static constexpr int kPieces = 8 * kChunks;  // of 16 bytes, in a row
  static constexpr int kOfThread = (kRows * kPieces + Layout::kWorkers - 1) / Layout::kWorkers;

  const int thread_;
  uint4 piece_[kOfThread];
};

}  // namespace flashmla::cuda::dense
