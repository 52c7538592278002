// Dense decode on sm_90a: pages and queries into shared memory.
#pragma once

#include "kernels/cuda/dense_layout.cuh"
#include "kernels/cuda/dense_ptx.cuh"
#include "kernels/cuda/fetch.cuh"

namespace flashmla::cuda::dense {

// Tensor map of the pages {dimension, token, page} and its box of 64 dimensions x `box_tokens`.
struct Pages {
  CUtensorMap map;
  int32_t box_tokens;  // 64, 32 or 16; divides the page size
};

// The warp that copies: brings in chunk after chunk of tile after tile, as far ahead as there are free slots.
template <int kRows, int kChunks>
class Copier {
 public:
  using Layout = dense::Layout<kRows, kChunks>;

  __device__ __forceinline__ Copier(const DecodeArguments& a, const Pages& pages, const Work& work, uint32_t shared,
                                    int lane)
      : a_(a), pages_(pages), work_(work), shared_(shared), lane_(lane) {}

  static __device__ __forceinline__ void init_barriers(uint32_t shared) {
    for (int i = 0; i < Layout::kSlotCount; ++i) {
      barrier_init(shared + Layout::kFull + 8 * i, 1);
      barrier_init(shared + Layout::kEmpty + 8 * i, 4);
    }
    for (int i = 0; i < Layout::kBuffers; ++i) {
      barrier_init(shared + Layout::kWeightsFull + 8 * i, 4);
      barrier_init(shared + Layout::kWeightsEmpty + 8 * i, 4 * Layout::kValueGroups);
    }
    fence_proxy_async();
  }

  __device__ __forceinline__ void run() {
    const int boxes = kTileTokens / pages_.box_tokens;  // of a tile: 1, 2 or 4
    const int batch = 32 / boxes;                       // tiles whose page numbers the lanes hold
    RingPlace<Layout::kSlotCount> place;
    int32_t next = load_page(0);
    int32_t page = -1;
#pragma unroll 1
    for (int32_t tile = 0; tile < work_.tiles; ++tile) {
      const int index = tile % batch * boxes;
      if (index == 0) {
        page = next;
        next = load_page((tile + batch) * boxes);
      }
      const int32_t position = (work_.first_tile + tile) * kTileTokens;
      int32_t number[4], offset[4];
      uint32_t missing = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        number[i] = __shfl_sync(~0U, page, index + i & 31);
        const int32_t first = position + i * pages_.box_tokens;
        offset[i] = first - quotient(first, a_.main.pool.page_size) * a_.main.pool.page_size.divisor;
        if (i < boxes && number[i] < 0) {
          missing |= ((1U << pages_.box_tokens / 8) - 1) << i * pages_.box_tokens / 8;
        }
      }
#pragma unroll 1
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        barrier_wait(shared_ + Layout::kEmpty + 8 * place.index, place.parity ^ 1);
        if (lane_ == 0) {
          const uint32_t full = shared_ + Layout::kFull + 8 * place.index;
          const uint32_t slot = shared_ + Layout::kSlots + kSlotBytes * place.index;
          if (chunk == 0) {
            asm volatile("st.shared.u32 [%0], %1;" ::"r"(shared_ + Layout::kMissing + 4 * place.index), "r"(missing)
                         : "memory");
          }
          barrier_arrive_expect(full, kSlotBytes);
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            if (i < boxes) {
              copy_box(slot + i * pages_.box_tokens * 128, &pages_.map, kChunkDims * chunk, offset[i], number[i], full);
            }
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
    const int32_t position = work_.first_tile * kTileTokens + (first + lane_) * pages_.box_tokens;
    if (position >= work_.count) return -1;
    const int32_t number =
        a_.main.indices[work_.request * a_.main.batch_stride + quotient(position, a_.main.pool.page_size)];
    const bool inside = number >= 0 && int64_t{number} * a_.main.pool.page_size.divisor < a_.main.pool.num_slots;
    return inside ? number : -1;
  }

  const DecodeArguments& a_;
  const Pages& pages_;
  const Work& work_;
  const uint32_t shared_;
  const int lane_;
};

// Queries as they are, rows behind the last one zero; by all warps but the last.
template <int kRows, int kChunks>
__device__ __forceinline__ void load_queries(const DecodeArguments& a, const Work& work, uint8_t* shared, int thread) {
  using Layout = dense::Layout<kRows, kChunks>;
  constexpr int kPieces = 8 * kChunks;  // of 16 bytes, in a row
#pragma unroll 4
  for (int i = thread; i < kRows * kPieces; i += Layout::kWorkers) {
    const int row = i / kPieces, piece = i % kPieces;
    uint4 v = {0, 0, 0, 0};
    if (row < work.rows) {
      const int32_t token = (work.first_row + row) / a.num_heads;
      const int32_t head = work.first_row + row - token * a.num_heads;
      const uint16_t* q =
          a.q + work.request * a.q_stride.batch + token * a.q_stride.token + head * a.q_stride.head + 8 * piece;
      if (a.q_aligned) {
        v = __ldg(reinterpret_cast<const uint4*>(q));
      } else {
        v = {q[0] | static_cast<uint32_t>(q[1]) << 16, q[2] | static_cast<uint32_t>(q[3]) << 16,
             q[4] | static_cast<uint32_t>(q[5]) << 16, q[6] | static_cast<uint32_t>(q[7]) << 16};
      }
    }
    write(shared + Layout::kQuery + piece / 8 * Layout::kOperandBytes + row * 128 + ((piece ^ row) & 7) * 16, v);
  }
  // How many tokens each row sees.
  for (int row = thread; row < kRows; row += Layout::kWorkers) {
    const int32_t token = min((work.first_row + row) / a.num_heads, a.s_q - 1);
    write(shared + Layout::kVisible + 4 * row, work.count - (a.causal ? a.s_q - 1 - token : 0));
  }
  fence_proxy_async();
}

}  // namespace flashmla::cuda::dense
