// Dense decode on sm_90a: pages and queries into shared memory.
#pragma once

#include "kernels/cuda/dense_layout.cuh"
#include "kernels/cuda/dense_ptx.cuh"
#include "kernels/cuda/fetch.cuh"

namespace flashmla::cuda::dense {

// A call. It takes a block half a microsecond to look at a part of its arguments for the first time, so they are few,
// and those that it needs first lie next to each other.
struct Call {
  CUtensorMap pages;    // {dimension of a chunk, token, chunk, page}, boxes of box_tokens and the chunks of a slot
  CUtensorMap queries;  // {dimension of a chunk, row of the request, chunk, request}, boxes of a block's rows
  const int32_t* lengths;
  const int32_t* table;
  int64_t table_stride;
  Divisor row_blocks;  // blocks that share a request's rows
  Divisor splits, parts, shards;
  Divisor page_size;
  int32_t page_count;   // of the pool, at most
  int32_t most_tokens;  // of a request
  int32_t box_tokens;   // 64, 32 or 16; divides the page size
  int32_t box_chunks;   // those of a slot where a box has all tokens of a tile, else 1
  int32_t table_pages;  // of a request
  int32_t heads_per_row;
  float scale_high, scale_low;
  Divisor heads;  // of a query token
  int32_t s_q;
  bool causal;
  bool queries_mapped;  // else `queries` is not to be used
  bool out_aligned;
  uint16_t* out;
  Rows out_stride;
  float* lse;
  Rows lse_stride;
  float* partial;
  const uint16_t* q;
  Rows q_stride;
};

// Which query a row of a block is.
struct RowOfTask {
  int32_t token, head;

  __device__ __forceinline__ RowOfTask(const Call& call, const Task& task, int row) {
    const int32_t index = task.first_row + row;
    token = static_cast<int32_t>(quotient(index, call.heads));
    head = index - token * static_cast<int32_t>(call.heads.divisor);
  }
};

// Tokens that a row sees.
__device__ __forceinline__ int32_t visible_tokens(const Call& call, const Task& task, int row) {
  if (!call.causal) return task.count;
  return task.count - max(call.s_q - 1 - RowOfTask(call, task, row).token, 0);
}

// The block's barriers; a warp.
template <typename Layout>
__device__ __forceinline__ void init_barriers(uint32_t shared, int lane) {
  static_assert(Layout::kSlotCount <= 32);
  if (lane < Layout::kSlotCount) {
    barrier_init_unfenced(shared + Layout::kFull + 8 * lane, 1);
    barrier_init_unfenced(shared + Layout::kEmpty + 8 * lane, Layout::kSlotUsers);
  }
  if (lane < Layout::kBuffers) {
    barrier_init_unfenced(shared + Layout::kWeightsFull + 8 * lane, 4 * 32);
    barrier_init_unfenced(shared + Layout::kWeightsEmpty + 8 * lane, 4 * 32 * Layout::kValueGroups);
  }
  if (lane == 31) barrier_init_unfenced(shared + Layout::kQueryFull, 1);
  barrier_init_fence();
  __syncwarp();
}

// The warp that copies: brings in slot after slot of tile after tile, as far ahead as there are free ones.
template <typename SharedLayout, int kChunks>
class Copier {
 public:
  using Layout = SharedLayout;

  __device__ __forceinline__ Copier(const Call& call, const Task& task, uint32_t shared, int lane)
      : call_(call), task_(task), shared_(shared), lane_(lane), next_(load_page(0)) {}

  __device__ __forceinline__ void run() {
    const int boxes = kTileTokens / call_.box_tokens;  // of a slot: 1, 2 or 4
    const int batch = 32 / boxes;                      // tiles whose page numbers the lanes hold
    const int box_shift = 31 - __clz(call_.box_tokens);
    RingPlace<Layout::kSlotCount> place;
    RingPlace<2> room;
    int32_t page = next_;
    next_ = load_page(batch * boxes);
#pragma unroll 1
    for (int32_t tile = 0; tile < task_.tiles; ++tile) {
      if (tile % batch == 0 && tile > 0) {
        page = next_;
        next_ = load_page((tile + batch) * boxes);
      }
      const Boxes of_lane = boxes_of(tile, page, boxes);
      // Bit i: tokens 8i.. have no page.
      const int32_t eighth = __shfl_sync(~0U, of_lane.page, 8 * lane_ >> box_shift);
      const uint32_t missing = __ballot_sync(~0U, lane_ < kTileTokens / 8 && eighth < 0);
#pragma unroll 1
      for (int turn = 0; turn < kChunks; turn += Layout::kSlotChunks) {
        if constexpr (Layout::kHasRooms) {
          const int chunk = chunk_in_turn<kChunks>(turn);
          copy(of_lane, chunk, slot_of_chunk(room, chunk), parity_of_chunk(room, chunk, tile), turn == 0, room.index,
               missing);
        } else {
          copy(of_lane, turn, place.index, place.parity, turn == 0, place.index, missing);
          place.advance();
        }
      }
      room.advance();
    }
  }

 private:
  struct Boxes {
    int32_t page, offset;
    bool copies;
  };

  // Lane i has box i of the tile; `page`: the lanes' page numbers of this tile's batch.
  __device__ __forceinline__ Boxes boxes_of(int32_t tile, int32_t page, int boxes) const {
    Boxes of_lane{};
    of_lane.page = __shfl_sync(~0U, page, (tile * boxes + lane_) & 31);
    const int32_t first = (task_.first_tile + tile) * kTileTokens + lane_ * call_.box_tokens;
    of_lane.offset = static_cast<int32_t>(first - quotient(first, call_.page_size) * call_.page_size.divisor);
    of_lane.copies = lane_ < boxes;
    return of_lane;
  }

  // Chunks from `chunk` on into a slot, when it is free; with the first of a tile what the tile lacks.
  __device__ __forceinline__ void copy(const Boxes& of_lane, int chunk, uint32_t slot, uint32_t parity, bool first,
                                       uint32_t tile_place, uint32_t missing) const {
    barrier_wait(shared_ + Layout::kEmpty + 8 * slot, parity ^ 1);
    const uint32_t full = shared_ + Layout::kFull + 8 * slot;
    if (lane_ == 0) {
      if (first) store_shared(shared_ + Layout::kMissing + 4 * tile_place, missing);
      barrier_arrive_expect(full, Layout::kSlotBytes);
    }
    __syncwarp();
    if (of_lane.copies) {
      const uint32_t to = shared_ + Layout::kSlots + Layout::kSlotBytes * slot + lane_ * call_.box_tokens * 128;
      for (int c = 0; c < Layout::kSlotChunks; c += call_.box_chunks) {
        copy_box(to + c * kChunkBytes, &call_.pages, of_lane.offset, chunk + c, of_lane.page, full);
      }
    }
    __syncwarp();
  }

  // The page of this lane's box behind box `first` of the block; -1: there is none.
  __device__ __forceinline__ int32_t load_page(int32_t first) const {
    const uint32_t position = static_cast<uint32_t>(task_.first_tile) * kTileTokens +
                              static_cast<uint32_t>(first + lane_) * static_cast<uint32_t>(call_.box_tokens);
    // Unsigned: boxes that are looked up ahead may lie behind 2^31 tokens.
    if (position >= static_cast<uint32_t>(task_.count)) return -1;
    const int32_t number = call_.table[task_.request * call_.table_stride + quotient(position, call_.page_size)];
    return number >= 0 && number < call_.page_count ? number : -1;
  }

  const Call& call_;
  const Task& task_;
  const uint32_t shared_;
  const int lane_;
  int32_t next_;  // the lane's page of the next batch
};

// Asks for the block's queries, as they are; rows behind the last one become zeros. One thread.
template <typename Layout, int kChunks>
__device__ __forceinline__ void copy_queries(const Call& call, const Task& task, uint32_t shared) {
  const uint32_t full = shared + Layout::kQueryFull;
  barrier_arrive_expect(full, kChunks * Layout::kOperandBytes);
  copy_queries_box(shared + Layout::kQuery, &call.queries, task.first_row, task.request, full);
}

// The same where no tensor map describes them: element by element. All threads but those that copy.
template <typename Layout, int kRows, int kChunks>
__device__ __forceinline__ void load_queries(const Call& call, const Task& task, uint8_t* shared, int thread) {
  constexpr int kPieces = 8 * kChunks;  // of 16 bytes, in a row
#pragma unroll 1
  for (int i = thread; i < kRows * kPieces; i += Layout::kWorkers) {
    const int row = i / kPieces, piece = i % kPieces;
    uint4 values = {0, 0, 0, 0};
    if (row < min(task.rows, kRows)) {
      const RowOfTask place(call, task, row);
      const uint16_t* q = call.q + task.request * call.q_stride.batch + place.token * call.q_stride.token +
                          place.head * call.q_stride.head + 8 * piece;
      values = load_elements(q);
    }
    write(shared + Layout::kQuery + piece / 8 * Layout::kOperandBytes + row * 128 + ((piece ^ row) & 7) * 16, values);
  }
  fence_async_proxy();
}

}  // namespace flashmla::cuda::dense
