// Pieces that several kernels share.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "flashmla/records.h"
#include "orchestrator/engine/embedded/cuda/kernels.h"
#include "orchestrator/engine/embedded/cuda/runtime.h"

namespace sweep::engine::embedded::cuda {

constexpr int kThreads = 256;  // of most kernels
constexpr int kWarp = 32;

__device__ inline float from_bf16(Bf16 value) {
  return flashmla_bits_float(static_cast<uint32_t>(value) << 16);
}

// The sum of all threads' values, in a fixed order, to every thread. `kSize` threads in the block, a multiple of 32.
template <int kSize>
__device__ inline float block_sum(float value) {
  __shared__ float sums[kSize / kWarp];
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffffU, value, distance);
  }
  __syncthreads();  // a former call's sums have been read
  if (threadIdx.x % kWarp == 0) sums[threadIdx.x / kWarp] = value;
  __syncthreads();
  float total = 0;
  for (int i = 0; i < kSize / kWarp; ++i) total += sums[i];
  return total;
}

__device__ inline float norm_factor(float square_sum, int size, float epsilon) {
  return static_cast<float>(1.0 / sqrt(static_cast<double>(square_sum) / size + static_cast<double>(epsilon)));
}

__device__ inline float silu(float value) {
  return value / (1.0F + expf(-value));
}

struct Pair {
  float a, b;
};

// direction 1 turns forward, -1 back.
__device__ inline Pair turned(Pair pair, const RopeTable& rope, int64_t position, int index, float direction) {
  const float cosine = rope.cosines[position * rope.half + index];
  const float sine = direction * rope.sines[position * rope.half + index];
  return {pair.a * cosine - pair.b * sine, pair.a * sine + pair.b * cosine};
}

// Rotates the rotary part, the last 2 * rope.half of `size` values in shared memory. Ends without a barrier.
__device__ inline void rotate_in_block(float* values, int size, const RopeTable& rope, int64_t position) {
  float* const pairs = values + size - 2 * rope.half;
  for (int i = threadIdx.x; i < rope.half; i += blockDim.x) {
    const Pair pair = turned({pairs[2 * i], pairs[2 * i + 1]}, rope, position, i, 1.0F);
    pairs[2 * i] = pair.a;
    pairs[2 * i + 1] = pair.b;
  }
}

// How many groups of tokens a row sees.
__device__ inline int visible_groups(int position, int ratio, bool sees_own) {
  return position < 0 ? 0 : (position + (sees_own ? 1 : 0)) / ratio;
}

// The block of the cache with group or token number `index`, when a block holds `page_size` of them.
__device__ inline int block_of(const RowTable& table, int segment, int index, int page_size) {
  return table.blocks[static_cast<int64_t>(segment) * table.blocks_per_sequence + index / page_size];
}

// A kernel may be started before the one in front of it has ended, as launch() does: what it reads of others it may
// read only behind this. All threads call it, so that the end of a kernel is also the end of all before it.
__device__ inline void wait_for_predecessor() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;");
}

struct LaunchShape {
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};

// Launches a kernel that may be started early: a graph of short kernels spends much of its time between them.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), const LaunchShape& shape, Arguments... arguments) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = shape.stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...), "cudaLaunchKernelEx");
}

}  // namespace sweep::engine::embedded::cuda
