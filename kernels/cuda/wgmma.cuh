// Products of a warpgroup on sm_90a: m64nNk16, A from registers, B from shared memory.
#pragma once

#include <cstdint>

namespace flashmla::cuda {

// B operands lie K-major: rows of 64 values (128 bytes), one for each column of B, 1024-byte aligned; the 16-byte
// pieces of row r are stored at place p ^ (r % 8) ("128-byte swizzle").
constexpr int kSwizzledRow = 128;

__device__ __forceinline__ int swizzled(int row, int piece) {
  return row * kSwizzledRow + ((piece ^ (row & 7)) << 4);
}

// B from `address` of shared memory: the low half of its matrix descriptor. The high half is the same for all: rows of
// 128 bytes, 1024 bytes from 8 rows to the next 8. PTX ISA 9.0, "Asynchronous warpgroup level matrix shared memory
// layout".
__device__ __forceinline__ uint32_t b_descriptor(uint32_t address) {
  return 1U << 16 | (address & 0x3ffff) >> 4;
}

__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Operands in registers are written before this, not behind a later wgmma_fence().
__device__ __forceinline__ void pin(uint32_t (&a)[4][4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int k = 0; k < 4; ++k) asm volatile("" : "+r"(a[i][k])::"memory");
  }
}

// Accumulators are read, or written, behind this, not before an earlier wgmma_wait().
template <int kCount>
__device__ __forceinline__ void pin(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// D is read and written ("+f") or only written ("=f").
#define FLASHMLA_D4(d, i, c) c(d[i]), c(d[i + 1]), c(d[i + 2]), c(d[i + 3])
#define FLASHMLA_D8(d, i, c) FLASHMLA_D4(d, i, c), FLASHMLA_D4(d, i + 4, c)
#define FLASHMLA_D16(d, i, c) FLASHMLA_D8(d, i, c), FLASHMLA_D8(d, i + 8, c)
#define FLASHMLA_D32(d, i, c) FLASHMLA_D16(d, i, c), FLASHMLA_D16(d, i + 16, c)
#define FLASHMLA_R4 "%0, %1, %2, %3"
#define FLASHMLA_R8 FLASHMLA_R4 ", %4, %5, %6, %7"
#define FLASHMLA_R16 FLASHMLA_R8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define FLASHMLA_R32 FLASHMLA_R16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"

#define FLASHMLA_DEFINE_WGMMA(NAME, CONSTRAINT, ADD, TYPE, N, COUNT, A, B)                                \
  __device__ __forceinline__ void NAME(float(&d)[COUNT], const uint32_t(&a)[4], uint32_t b) {             \
    asm volatile("{\n\t.reg .pred add;\n\t.reg .b64 b;\n\tsetp.ne.b32 add, " ADD ", 0;\n\tmov.b64 b, {" B \
                 ", 0x40000040};\n\twgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE        \
                 " {" FLASHMLA_R##COUNT "}, {" A "}, b, add, 1, 1, 0;\n\t}"                               \
                 : FLASHMLA_D##COUNT(d, 0, CONSTRAINT)                                                    \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b));                                   \
  }

#define FLASHMLA_DEFINE_WGMMAS(NAME, CONSTRAINT, ADD, TYPE)                               \
  FLASHMLA_DEFINE_WGMMA(NAME, CONSTRAINT, ADD, TYPE, 8, 4, "%4, %5, %6, %7", "%8")        \
  FLASHMLA_DEFINE_WGMMA(NAME, CONSTRAINT, ADD, TYPE, 16, 8, "%8, %9, %10, %11", "%12")    \
  FLASHMLA_DEFINE_WGMMA(NAME, CONSTRAINT, ADD, TYPE, 32, 16, "%16, %17, %18, %19", "%20") \
  FLASHMLA_DEFINE_WGMMA(NAME, CONSTRAINT, ADD, TYPE, 64, 32, "%32, %33, %34, %35", "%36")

// d += a b, or d = a b; a as of mma.m16n8k16 for this warp's 16 of the 64 rows; d[4n .. 4n + 3] as there for columns 8n
// .. 8n + 7. Asynchronous: see wgmma_commit() and wgmma_wait().
FLASHMLA_DEFINE_WGMMAS(wgmma_f16, "+f", "1", "f16")
FLASHMLA_DEFINE_WGMMAS(wgmma_bf16, "+f", "1", "bf16")
FLASHMLA_DEFINE_WGMMAS(wgmma_f16_first, "=f", "0", "f16")
FLASHMLA_DEFINE_WGMMAS(wgmma_bf16_first, "=f", "0", "bf16")

#undef FLASHMLA_DEFINE_WGMMAS
#undef FLASHMLA_DEFINE_WGMMA
#undef FLASHMLA_D4
#undef FLASHMLA_D8
#undef FLASHMLA_D16
#undef FLASHMLA_D32
#undef FLASHMLA_R4
#undef FLASHMLA_R8
#undef FLASHMLA_R16
#undef FLASHMLA_R32

// --- registers -------------------------------------------------------------------------------------------------------

// Of a thread, where this many run on a multiprocessor; in steps of 8.
constexpr int registers_at_start(int threads) {
  constexpr int kOfMultiprocessor = 64 * 1024;
  return kOfMultiprocessor / threads / 8 * 8;
}

// What `takers` of these threads can have when each of the others keeps `kept`.
constexpr int registers_taken(int threads, int takers, int kept) {
  return (registers_at_start(threads) * threads - kept * (threads - takers)) / takers / 8 * 8;
}

// All warps of a warpgroup.
template <int kRegisters>
__device__ __forceinline__ void release_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace flashmla::cuda
