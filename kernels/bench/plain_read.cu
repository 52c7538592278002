// Kernels that only read: the floor under every decode kernel on the same input.
//
// A decode call cannot be faster than reading its bytes through its indices, so flashmla_plain_read_* do just that: a
// thread takes a few 16-byte pieces of the selected rows, loads their slots, then the pieces, all in flight together.
// Few rows spread over all multiprocessors by themselves, since a piece is the unit of work. What is read is folded
// into a word that is hardly ever written; without that the compiler would drop the loads.
#include "kernels/bench/plain_read.h"

namespace {

using flashmla::bench::LinearReadArguments;
using flashmla::bench::ReadArguments;
using flashmla::bench::ReadLayout;
using flashmla::bench::RepeatArguments;

// Streams through L1: nothing is read twice by the same multiprocessor but by chance.
__device__ __forceinline__ uint4 load(const uint8_t* address) {
  uint4 value;
  asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
      : "l"(address));
  return value;
}

__device__ __forceinline__ uint32_t fold(uint4 value) {
  return value.x ^ value.y ^ value.z ^ value.w;
}

// Where piece `piece` of the row in slot `slot` is.
__device__ __forceinline__ const uint8_t* piece_address(const uint8_t* pool, const ReadLayout& layout, int32_t slot,
                                                        uint32_t piece) {
  const uint32_t page = static_cast<uint32_t>(slot) >> layout.page_shift;
  const uint32_t row = static_cast<uint32_t>(slot) & ((1U << layout.page_shift) - 1);
  const uint32_t in_data = row * layout.data_bytes + piece * 16;
  const uint32_t scale_row = (layout.data_bytes << layout.page_shift) + row * layout.scale_bytes;
  const uint32_t in_scales = (scale_row & ~15U) + (piece - layout.data_pieces) * 16;
  return pool + page * layout.page_stride + (piece < layout.data_pieces ? in_data : in_scales);
}

// Folds what this thread reads.
template <int kUnroll>
__device__ __forceinline__ uint32_t read_rows(const ReadArguments& arguments) {
  const ReadLayout& layout = arguments.layout;
  const uint32_t main_rows = arguments.main.count;
  // The two lists as one: row `main_rows` is the first of the extra cache.
  const int32_t* const main_slots = arguments.main.slots;
  const int32_t* const extra_slots = arguments.extra.slots - main_rows;
  const uint8_t* const main_pool = arguments.main.pool;
  const uint8_t* const extra_pool = arguments.extra.pool;
  const uint32_t pieces = layout.data_pieces + layout.scale_pieces;
  const uint32_t rows = main_rows + arguments.extra.count;
  const uint32_t total = rows * pieces;
  // From a thread's piece to its next one is blockDim.x pieces: division is slow, so rows and pieces are stepped.
  const uint32_t step_rows = blockDim.x / pieces;
  const uint32_t step_pieces = blockDim.x - step_rows * pieces;
  uint32_t folded = 0;
  for (uint32_t first = blockIdx.x * blockDim.x * kUnroll + threadIdx.x; first < total;
       first += gridDim.x * blockDim.x * kUnroll) {
    uint32_t row = first / pieces;
    uint32_t piece = first - row * pieces;
    int32_t slots[kUnroll];
    uint32_t of_row[kUnroll];
    const uint8_t* pool[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      const bool in_main = row < main_rows;
      pool[i] = in_main ? main_pool : extra_pool;
      of_row[i] = piece;
      slots[i] = -1;
      if (row < rows) slots[i] = __ldg((in_main ? main_slots : extra_slots) + row);
      row += step_rows;
      piece += step_pieces;
      if (piece >= pieces) {
        piece -= pieces;
        ++row;
      }
    }
    uint4 values[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      values[i] = make_uint4(0, 0, 0, 0);
      if (slots[i] >= 0) values[i] = load(piece_address(pool[i], layout, slots[i], of_row[i]));
    }
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) folded ^= fold(values[i]);
  }
  return folded;
}

template <int kUnroll>
__device__ __forceinline__ void plain_read(const ReadArguments& arguments) {
  const uint32_t folded = read_rows<kUnroll>(arguments);
  if (folded == arguments.sink_when) *arguments.sink = folded;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(512) flashmla_plain_read_1(__grid_constant__ const ReadArguments a) {
  plain_read<1>(a);
}
extern "C" __global__ void __launch_bounds__(512) flashmla_plain_read_2(__grid_constant__ const ReadArguments a) {
  plain_read<2>(a);
}
extern "C" __global__ void __launch_bounds__(512) flashmla_plain_read_4(__grid_constant__ const ReadArguments a) {
  plain_read<4>(a);
}
extern "C" __global__ void __launch_bounds__(512) flashmla_plain_read_8(__grid_constant__ const ReadArguments a) {
  plain_read<8>(a);
}

// Adds the fold of everything to the sink, whatever it is: shows that the bytes that are timed are those that are
// meant.
extern "C" __global__ void __launch_bounds__(512) flashmla_plain_read_fold(__grid_constant__ const ReadArguments a) {
  atomicXor(a.sink, read_rows<4>(a));
}

// The most that can be read at all: consecutive pieces, eight in flight a thread. A block takes 8 * blockDim.x of them
// at a time; `pieces` is a multiple of that.
extern "C" __global__ void __launch_bounds__(512) flashmla_linear_read(__grid_constant__ const LinearReadArguments a) {
  constexpr uint32_t kUnroll = 8;
  uint32_t folded = 0;
  for (uint64_t first = uint64_t{blockIdx.x} * blockDim.x * kUnroll; first < a.pieces;
       first += uint64_t{gridDim.x} * blockDim.x * kUnroll) {
    const uint8_t* data = a.data + (first + threadIdx.x) * 16;
    uint4 values[kUnroll];
#pragma unroll
    for (uint32_t i = 0; i < kUnroll; ++i) values[i] = load(data + i * blockDim.x * 16);
#pragma unroll
    for (uint32_t i = 0; i < kUnroll; ++i) folded ^= fold(values[i]);
  }
  if (folded == a.sink_when) *a.sink = folded;
}

// Fills memory with repetitions of a block: set-up, not timed.
extern "C" __global__ void __launch_bounds__(512) flashmla_repeat(__grid_constant__ const RepeatArguments a) {
  const uint64_t threads = uint64_t{gridDim.x} * blockDim.x;
  uint64_t at = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  uint64_t in_block = at % a.block_pieces;
  const uint64_t step = threads % a.block_pieces;
  for (; at < a.pieces; at += threads) {
    reinterpret_cast<uint4*>(a.memory)[at] = reinterpret_cast<const uint4*>(a.block)[in_block];
    in_block += step;
    if (in_block >= a.block_pieces) in_block -= a.block_pieces;
  }
}

// What a launch costs by itself.
extern "C" __global__ void flashmla_empty() {}
