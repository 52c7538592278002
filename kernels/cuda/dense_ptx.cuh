// The PTX of dense decode on sm_90a: tensor copies, the barriers they report to, and products of warpgroups.
#pragma once

#include <cuda.h>

#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace flashmla::cuda {

// The next kernel of the stream may be launched if it was marked for that; it waits for the end of this one itself.
__device__ __forceinline__ void let_next_kernel_start() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// --- barriers --------------------------------------------------------------------------------------------------------

// Any number of barriers are initialised before one barrier_init_fence().
__device__ __forceinline__ void barrier_init_unfenced(uint32_t barrier, uint32_t count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

__device__ __forceinline__ void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Arrives at a barrier of `threads` threads without waiting for the others.
__device__ __forceinline__ void named_barrier_arrive(uint32_t id, uint32_t threads) {
  asm volatile("barrier.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// --- tensor copies ---------------------------------------------------------------------------------------------------

__device__ __forceinline__ void prefetch_tensor_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Copies the box at {0, token, chunk, page} to shared memory and counts its bytes on `barrier`; what is outside the
// tensor becomes zeros, which count too. The L2 cache is told to drop first what it brings: nobody reads it again.
__device__ __forceinline__ void copy_box(uint32_t to, const CUtensorMap* map, int32_t token, int32_t chunk,
                                         int32_t page, uint32_t barrier) {
  constexpr uint64_t kEvictFirst = 0x12f0000000000000;
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%2, %3, %4, %5}], [%6], %7;" ::"r"(to),
      "l"(map), "r"(0), "r"(token), "r"(chunk), "r"(page), "r"(barrier), "l"(kEvictFirst)
      : "memory");
}

// The same from a map of queries: rows from `row` on of request `request`, all chunks. No hint: other calls' queries
// lie there next.
__device__ __forceinline__ void copy_queries_box(uint32_t to, const CUtensorMap* map, int32_t row, int32_t request,
                                                 uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %2, %4}], "
      "[%5];" ::"r"(to),
      "l"(map), "r"(0), "r"(row), "r"(request), "r"(barrier)
      : "memory");
}

// Asks for a line of 128 bytes, which a later load finds in the L1 cache.
__device__ __forceinline__ void load_ahead(const void* line) {
  asm volatile(
      "{\n\t"
      ".reg .b32 unused;\n\t"
      "ld.global.nc.b32 unused, [%0];\n\t"
      "}" ::"l"(line));
}

// --- shared memory ---------------------------------------------------------------------------------------------------

__device__ __forceinline__ void store_shared(uint32_t address, uint32_t value) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

// Stores four 8x8 tiles of 16-bit values transposed: lane i gives the address of a row of 16 bytes, that is of column
// i % 8 of tile i / 8.
__device__ __forceinline__ void store_matrices_transposed(uint32_t address, const uint32_t (&tiles)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(tiles[0]),
               "r"(tiles[1]), "r"(tiles[2]), "r"(tiles[3])
               : "memory");
}

// The same, not transposed.
__device__ __forceinline__ void store_matrices(uint32_t address, const uint32_t (&tiles)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(tiles[0]),
               "r"(tiles[1]), "r"(tiles[2]), "r"(tiles[3])
               : "memory");
}

__device__ __forceinline__ void load_matrices(uint32_t address, uint32_t (&tiles)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(tiles[0]), "=r"(tiles[1]), "=r"(tiles[2]), "=r"(tiles[3])
               : "r"(address)
               : "memory");
}

// --- products of a warpgroup -----------------------------------------------------------------------------------------

// Describes an operand in shared memory whose rows are 128 bytes (64 elements of BF16) with the swizzle of 128 bytes,
// 8 rows after 8 rows; the same for either operand and for a transposed one. Aligned to 1024 bytes but for steps along
// the row: 2 more for 16 elements further (32 bytes), 128 for 16 rows. An address has the block's place in the cluster
// above its low 18 bits.
__device__ __forceinline__ uint64_t operand(uint32_t address) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  constexpr uint64_t kEightRows = uint64_t{1024 / 16} << 32;
  constexpr uint64_t kUnused = uint64_t{1} << 16;
  return kSwizzle128 | kEightRows | kUnused | (address & 0x3ffff) >> 4;
}

// d = a b, added to d if `adds`; a: 64 x 16, b: 16 x N, of BF16; d: 64 x N of FP32, [N / 8][row / 8 % 2][column % 2] of
// rows 16 warp + lane / 4 (+ 8) and columns 8 n + 2 (lane % 4) (+ 1). kTransposedA: rows in memory are columns of a.
// The caller's registers are not to be touched before wgmma_wait().
template <bool kTransposedA>
__device__ __forceinline__ void wgmma(float (&d)[8], uint64_t a, uint64_t b, bool adds) {
  asm volatile(
      "{\n\t"
      ".reg .pred adds;\n\t"
      "setp.ne.b32 adds, %10, 0;\n\t"
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7}, "
      "%8, %9, adds, 1, 1, %11, 0;\n\t"
      "}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
      : "l"(a), "l"(b), "r"(static_cast<int32_t>(adds)), "n"(kTransposedA ? 1 : 0));
}

template <bool kTransposedA>
__device__ __forceinline__ void wgmma(float (&d)[16], uint64_t a, uint64_t b, bool adds) {
  asm volatile(
      "{\n\t"
      ".reg .pred adds;\n\t"
      "setp.ne.b32 adds, %18, 0;\n\t"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
      "%16, %17, adds, 1, 1, %19, 0;\n\t"
      "}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
        "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
      : "l"(a), "l"(b), "r"(static_cast<int32_t>(adds)), "n"(kTransposedA ? 1 : 0));
}

template <bool kTransposedA>
__device__ __forceinline__ void wgmma(float (&d)[32], uint64_t a, uint64_t b, bool adds) {
  asm volatile(
      "{\n\t"
      ".reg .pred adds;\n\t"
      "setp.ne.b32 adds, %34, 0;\n\t"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "
      "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, adds, 1, 1, %35, 0;\n\t"
      "}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
        "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),
        "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
        "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b), "r"(static_cast<int32_t>(adds)), "n"(kTransposedA ? 1 : 0));
}

// An operand of 128 columns, transposed: two chunks, `chunk_bytes` apart.
__device__ __forceinline__ uint64_t operand_pair(uint32_t address, uint32_t chunk_bytes) {
  constexpr uint64_t kUnused = uint64_t{1} << 16;
  return operand(address) - kUnused + (uint64_t{chunk_bytes / 16} << 16);
}

#define FLASHMLA_D4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define FLASHMLA_D16(d, i) FLASHMLA_D4(d, i), FLASHMLA_D4(d, i + 4), FLASHMLA_D4(d, i + 8), FLASHMLA_D4(d, i + 12)
#define FLASHMLA_D64(d) FLASHMLA_D16(d, 0), FLASHMLA_D16(d, 16), FLASHMLA_D16(d, 32), FLASHMLA_D16(d, 48)
#define FLASHMLA_R64                                                                                      \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, " \
  "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, "  \
  "%42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "  \
  "%62, %63}, "

// The same of 128 columns, b from operand_pair(): its rows in memory are the 16. a in registers, as four 8x8 tiles of
// load_matrices(): rows 0.. and 8.. of columns 0.., then of columns 8..
__device__ __forceinline__ void wgmma_values(float (&d)[64], const uint32_t (&a)[4], uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " FLASHMLA_R64
               "{%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
               : FLASHMLA_D64(d)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

// And with a from shared memory.
__device__ __forceinline__ void wgmma_values(float (&d)[64], uint64_t a, uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " FLASHMLA_R64 "%64, %65, 1, 1, 1, 0, 1;"
               : FLASHMLA_D64(d)
               : "l"(a), "l"(b));
}

#undef FLASHMLA_D4
#undef FLASHMLA_D16
#undef FLASHMLA_D64
#undef FLASHMLA_R64

}  // namespace flashmla::cuda
