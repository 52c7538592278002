// Products of few rows: the time is that of reading the weights once. Tensor cores take 16 outputs by 8 rows.
#include "orchestrator/engine/embedded/cuda/device_ops.cuh"
#include "orchestrator/engine/embedded/cuda/skinny.h"

namespace sweep::engine::embedded::cuda {

namespace {

constexpr int kOutputs = 16;  // of a block
constexpr int kRows = 8;      // of a tile
constexpr int kWarps = kThreads / kWarp;
constexpr int kChunk = 32;  // inputs that a warp takes at once: 8 for each of four threads, 16 bytes
constexpr int kAhead = 4;   // chunks that are loaded before the first is used

__device__ uint4 load_weights(const Bf16* from) {
  uint4 value;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(from));
  return value;
}

__device__ void multiply_tile(float (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// A block computes 16 outputs of a group for all rows; its warps share the inputs chunk by chunk. Within a chunk thread
// t of a row's four has inputs 8t to 8t + 7: any order serves, as long as weights and rows have the same.
template <int kTiles>
__global__ void __launch_bounds__(kThreads) skinny_kernel(Product a) {
  __shared__ float partial[kWarps][kOutputs][kTiles * kRows + 1];
  const int warp = threadIdx.x / kWarp;
  const int quad = threadIdx.x % kWarp / 4;
  const int pair = threadIdx.x % 4;
  const auto outputs = static_cast<int>(a.outputs);
  const auto rows = static_cast<int>(a.rows);
  const int first = static_cast<int>(blockIdx.x) * kOutputs;
  const int64_t group = blockIdx.y;
  const Bf16* const upper = a.weights + (group * outputs + min(first + quad, outputs - 1)) * a.inputs + 8 * pair;
  const Bf16* const lower = a.weights + (group * outputs + min(first + quad + 8, outputs - 1)) * a.inputs + 8 * pair;
  const Bf16* row[kTiles];
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    row[tile] = a.from + min(tile * kRows + quad, rows - 1) * (a.inputs * a.groups) + group * a.inputs + 8 * pair;
  }
  float sum[kTiles][4] = {};
  const int chunks = static_cast<int>(a.inputs) / kChunk;
  uint4 high[kAhead];
  uint4 low[kAhead];
  const auto load = [&](int begin) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int at = min(begin + i * kWarps, chunks - 1) * kChunk;
      high[i] = load_weights(upper + at);
      low[i] = load_weights(lower + at);
    }
  };
  load(warp);  // nobody writes weights
  wait_for_predecessor();
  for (int begin = warp; begin < chunks; begin += kWarps * kAhead) {
    if (begin != warp) load(begin);
    uint4 value[kAhead][kTiles];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int at = min(begin + i * kWarps, chunks - 1) * kChunk;
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) value[i][tile] = *reinterpret_cast<const uint4*>(row[tile] + at);
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (begin + i * kWarps >= chunks) break;
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const uint4& v = value[i][tile];
        multiply_tile(sum[tile], {high[i].x, low[i].x, high[i].y, low[i].y}, {v.x, v.y});
        multiply_tile(sum[tile], {high[i].z, low[i].z, high[i].w, low[i].w}, {v.z, v.w});
      }
    }
  }
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    partial[warp][quad][tile * kRows + 2 * pair] = sum[tile][0];
    partial[warp][quad][tile * kRows + 2 * pair + 1] = sum[tile][1];
    partial[warp][quad + 8][tile * kRows + 2 * pair] = sum[tile][2];
    partial[warp][quad + 8][tile * kRows + 2 * pair + 1] = sum[tile][3];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kOutputs * rows; i += kThreads) {
    const int output = i % kOutputs;
    const int at = i / kOutputs;
    if (first + output >= outputs) continue;
    float total = 0;
    for (int w = 0; w < kWarps; ++w) total += partial[w][output][at];
    const int64_t place = at * (a.outputs * a.groups) + group * outputs + first + output;
    if (a.to != nullptr) {
      a.to[place] = total;
    } else {
      a.to_bf16[place] = flashmla_to_bf16(total);
    }
  }
}

}  // namespace

bool is_skinny(const Product& product) {
  return product.rows <= 2 * kRows && product.inputs % kChunk == 0;
}

void multiply_skinny(const Product& product, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((product.outputs + kOutputs - 1) / kOutputs),
                  static_cast<unsigned>(product.groups));
  if (product.rows <= kRows) {
    launch(skinny_kernel<1>, {grid, kThreads, 0, stream}, product);
  } else {
    launch(skinny_kernel<2>, {grid, kThreads, 0, stream}, product);
  }
}

}  // namespace sweep::engine::embedded::cuda
