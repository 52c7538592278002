// The PTX instructions that CUDA C++ has no names for. Addresses of shared memory are 32-bit (`smem_address()`).
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

namespace flashmla::cuda {

__device__ __forceinline__ uint32_t smem_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// --- shared memory (loads and plain stores are C++, which the compiler may schedule)
// -----------------------------------

// Stores two 8x8 tiles of 16-bit values transposed: lane i < 16 gives the address of a row of 16 bytes, that is of
// column i % 8 of tile i / 8.
__device__ __forceinline__ void store_matrix_transposed(uint32_t address, uint32_t tile0, uint32_t tile1) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(address), "r"(tile0), "r"(tile1)
               : "memory");
}

// The same of all of a thread's tiles, one or two; of one, lanes i < 8 give addresses.
__device__ __forceinline__ void store_matrix_transposed(uint32_t address, const uint32_t (&tiles)[2]) {
  store_matrix_transposed(address, tiles[0], tiles[1]);
}
__device__ __forceinline__ void store_matrix_transposed(uint32_t address, const uint32_t (&tiles)[1]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(address), "r"(tiles[0]) : "memory");
}

// --- copies to shared memory -----------------------------------------------------------------------------------------

// Copies 16 bytes past the L1 cache, or zeroes them. Both addresses are 16-byte aligned.
__device__ __forceinline__ void copy_async_16(uint32_t to, const void* from, bool zero) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(zero ? 0 : 16) : "memory");
}

__device__ __forceinline__ void copy_async_8(uint32_t to, const void* from, bool zero) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(zero ? 0 : 8) : "memory");
}

__device__ __forceinline__ void copy_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most the latest `kPending` committed groups of this thread are still on their way.
template <int kPending>
__device__ __forceinline__ void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// --- barriers --------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void barrier_init(uint32_t barrier, uint32_t count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void barrier_arrive_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives when all copies that this thread has started are done.
__device__ __forceinline__ void barrier_arrive_after_copies(uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}

// `pause`: an instruction after each look in vain.
#define FLASHMLA_BARRIER_WAIT(barrier, parity, pause)           \
  asm volatile(                                                 \
      "{\n\t"                                                   \
      ".reg .pred done;\n\t"                                    \
      "wait:\n\t"                                               \
      "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n\t" \
      "@done bra finished;\n\t" pause                           \
      "bra wait;\n\t"                                           \
      "finished:\n\t"                                           \
      "}" ::"r"(barrier),                                       \
      "r"(parity)                                               \
      : "memory")

// Waits for the end of the phase of this parity.
__device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity) {
  FLASHMLA_BARRIER_WAIT(barrier, parity, "");
}

// The same where others have more urgent things to do than to watch a warp wait.
__device__ __forceinline__ void barrier_wait_patiently(uint32_t barrier, uint32_t parity) {
  FLASHMLA_BARRIER_WAIT(barrier, parity, "nanosleep.u32 20;\n\t");
}

#undef FLASHMLA_BARRIER_WAIT

// The same, but for no more than some microseconds: for what is better done later, and right in any case.
__device__ __forceinline__ void barrier_wait_briefly(uint32_t barrier, uint32_t parity) {
#pragma unroll 1
  for (int looks = 0; looks < 64; ++looks) {
    uint32_t done;
    asm volatile(
        "{\n\t"
        ".reg .pred done;\n\t"
        "mbarrier.test_wait.parity.shared.b64 done, [%1], %2;\n\t"
        "selp.u32 %0, 1, 0, done;\n\t"
        "}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
    if (done != 0) return;
    asm volatile("nanosleep.u32 64;");
  }
}

// Waits for the end of the phase of this parity; what other blocks of the cluster stored before is then visible. The
// first instruction waits (compute-sanitizer knows no other form), the second is done at once and acquires from the
// cluster.
__device__ __forceinline__ void barrier_wait_cluster(uint32_t barrier, uint32_t parity) {
  barrier_wait(barrier, parity);
  asm volatile(
      "{\n\t"
      ".reg .pred done;\n\t"
      "mbarrier.test_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n\t"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// Copies to shared memory and counts the bytes on the barrier.
__device__ __forceinline__ void copy_bulk(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

// What this thread wrote to shared memory comes before what bulk copies write to the same place, and is there for the
// tensor cores' reads (wgmma.cuh).
__device__ __forceinline__ void fence_async_proxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Asks for a number at once: volatile loads keep their order.
__device__ __forceinline__ int32_t load_now(const int32_t* from) {
  int32_t value;
  asm volatile("ld.global.nc.s32 %0, [%1];" : "=r"(value) : "l"(from));
  return value;
}

__device__ __forceinline__ uint2 load_now(const uint2* from) {
  uint2 value;
  asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(value.x), "=r"(value.y) : "l"(from));
  return value;
}

// A barrier among `threads` threads of the block.
__device__ __forceinline__ void named_barrier(uint32_t id, uint32_t threads) {
  asm volatile("barrier.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// The same barrier as named_barrier(); true if `condition` is for any of the threads.
__device__ __forceinline__ bool named_barrier_or(uint32_t id, uint32_t threads, bool condition) {
  uint32_t any;
  asm volatile(
      "{\n\t"
      ".reg .pred mine, all;\n\t"
      "setp.ne.u32 mine, %3, 0;\n\t"
      "barrier.cta.red.or.pred all, %1, %2, mine;\n\t"
      "selp.u32 %0, 1, 0, all;\n\t"
      "}"
      : "=r"(any)
      : "r"(id), "r"(threads), "r"(static_cast<uint32_t>(condition))
      : "memory");
  return any != 0;
}

// --- clusters --------------------------------------------------------------------------------------------------------

// The place of the block in its cluster, and of the cluster in the grid; 0 and blockIdx.x without clusters.
__device__ __forceinline__ int cluster_rank() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}

__device__ __forceinline__ int cluster_index() {
  uint32_t index;
  asm("mov.u32 %0, %%clusterid.x;" : "=r"(index));
  return static_cast<int>(index);
}

__device__ __forceinline__ void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

// Orders nothing but the initialisation of barriers.
__device__ __forceinline__ void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

__device__ __forceinline__ void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// The address of the same place in the shared memory of block `rank`.
__device__ __forceinline__ uint32_t map_to_rank(uint32_t address, uint32_t rank) {
  uint32_t remote;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
  return remote;
}

__device__ __forceinline__ float2 load_cluster_f2(uint32_t address) {
  float2 v;
  asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(address) : "memory");
  return v;
}

__device__ __forceinline__ float4 load_cluster_f4(uint32_t address) {
  float4 v;
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(address)
               : "memory");
  return v;
}

// Stores to another block's shared memory and counts the bytes on that block's barrier.
__device__ __forceinline__ void store_cluster(uint32_t address, float4 value, uint32_t barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(address),
      "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w), "r"(barrier)
      : "memory");
}

__device__ __forceinline__ void store_cluster(uint32_t address, float2 value, uint32_t barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(address),
               "f"(value.x), "f"(value.y), "r"(barrier)
               : "memory");
}

// --- arithmetic ------------------------------------------------------------------------------------------------------

// d += a b; a: 16x16, b: 16x8 of F16, d: 16x8 of FP32.
__device__ __forceinline__ void mma_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Two E4M3 (the low 16 bits of `pair`) to two F16, exactly.
__device__ __forceinline__ uint32_t e4m3x2_to_f16x2(uint32_t pair) {
  uint32_t value;
  asm("{\n\t"
      ".reg .b16 low, high;\n\t"
      "mov.b32 {low, high}, %1;\n\t"
      "cvt.rn.f16x2.e4m3x2 %0, low;\n\t"
      "}"
      : "=r"(value)
      : "r"(pair));
  return value;
}

// The same of the high 16 bits.
__device__ __forceinline__ uint32_t e4m3x2_high_to_f16x2(uint32_t pair) {
  uint32_t value;
  asm("{\n\t"
      ".reg .b16 low, high;\n\t"
      "mov.b32 {low, high}, %1;\n\t"
      "cvt.rn.f16x2.e4m3x2 %0, high;\n\t"
      "}"
      : "=r"(value)
      : "r"(pair));
  return value;
}

// {low, high} rounded to F16, and to BF16.
__device__ __forceinline__ uint32_t pack_f16x2(float low, float high) {
  uint32_t value;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(value) : "f"(high), "f"(low));
  return value;
}

__device__ __forceinline__ uint32_t pack_bf16x2(float low, float high) {
  uint32_t value;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(value) : "f"(high), "f"(low));
  return value;
}

__device__ __forceinline__ float low_f16(uint32_t pair) {
  float value;
  asm("{\n\t"
      ".reg .b16 low, high;\n\t"
      "mov.b32 {low, high}, %1;\n\t"
      "cvt.f32.f16 %0, low;\n\t"
      "}"
      : "=f"(value)
      : "r"(pair));
  return value;
}

__device__ __forceinline__ float high_f16(uint32_t pair) {
  return low_f16(pair >> 16);
}

__device__ __forceinline__ uint32_t f16x2_to_bf16x2(uint32_t pair) {
  return pack_bf16x2(low_f16(pair), high_f16(pair));
}

__device__ __forceinline__ uint32_t multiply_f16x2(uint32_t a, uint32_t b) {
  uint32_t value;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(value) : "r"(a), "r"(b));
  return value;
}

__device__ __forceinline__ uint32_t multiply_bf16x2(uint32_t a, uint32_t b) {
  uint32_t value;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(value) : "r"(a), "r"(b), "r"(0x80008000U));
  return value;
}

// 2^x to about 2 units in the last place; 0 below 2^-126; exact for whole x.
__device__ __forceinline__ float exp2_fast(float x) {
  float value;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(x));
  return value;
}

}  // namespace flashmla::cuda
