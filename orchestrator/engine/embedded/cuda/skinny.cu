// The time of these products is that of reading the weights once. Tensor cores take 16 outputs by 8 rows.
#include "orchestrator/engine/embedded/cuda/skinny.h"

#include "orchestrator/engine/embedded/cuda/device_ops.cuh"

namespace sweep::engine::embedded::cuda {

namespace {

constexpr int kOutputs = 16;  // of a block
constexpr int kRows = 8;      // of a tile
constexpr int kWarps = kThreads / kWarp;
constexpr int kChunk = 32;  // inputs that a warp takes at once: 8 for each of four threads, 16 bytes
// Chunks of a batch: two batches fit into the registers.
template <int kTiles>
constexpr int kAhead = kTiles == 1 ? 4 : 2;

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

// ---- what is done with the rows before ----

struct AsTheyAre {
  __device__ void change(uint4& /*values*/, int /*row*/, int /*input*/) const {}
};

struct TurnedBack {
  const int32_t* positions;
  RopeTable rope;

  __device__ static uint32_t turned_pair(uint32_t packed, const RopeTable& rope, int position, int index) {
    const Pair pair =
        turned({from_bf16(static_cast<Bf16>(packed & 0xFFFFU)), from_bf16(static_cast<Bf16>(packed >> 16))}, rope,
               position, index, -1.0F);
    return flashmla_to_bf16(pair.a) | static_cast<uint32_t>(flashmla_to_bf16(pair.b)) << 16;
  }

  // `input` is the place of the first of eight values in the group.
  __device__ void change(uint4& values, int row, int input) const {
    const int index = (input % static_cast<int>(kValueDim) - (static_cast<int>(kValueDim) - 2 * rope.half)) / 2;
    if (input % static_cast<int>(kValueDim) < static_cast<int>(kValueDim) - 2 * rope.half) return;
    const int position = max(positions[row], 0);
    values.x = turned_pair(values.x, rope, position, index);
    values.y = turned_pair(values.y, rope, position, index + 1);
    values.z = turned_pair(values.z, rope, position, index + 2);
    values.w = turned_pair(values.w, rope, position, index + 3);
  }
};

// ---- what is done with the sums ----
// store() gets two sums of a row: of neighbouring outputs 2i and 2i + 1, or of i and i + 8 where `kApart` is set.
// `output` is the number of the first in its group.

struct Stored {
  static constexpr bool kApart = false;
  Product product;

  __device__ void one(int row, int64_t group, int64_t output, float value) const {
    if (output >= product.outputs) return;
    const int64_t place = row * (product.outputs * product.groups) + group * product.outputs + output;
    if (product.to != nullptr) {
      product.to[place] = value;
    } else {
      product.to_bf16[place] = flashmla_to_bf16(value);
    }
  }
  __device__ void store(int row, int64_t group, int64_t output, float a, float b) const {
    one(row, group, output, a);
    one(row, group, output + 1, b);
  }
};

struct Activated {
  static constexpr bool kApart = true;
  SiluArguments silu_arguments;

  __device__ void store(int row, int64_t /*group*/, int64_t output, float gate, float up) const {
    const int64_t i = output / (2 * kGateUnit) * kGateUnit + output % kGateUnit;
    if (i >= silu_arguments.size) return;
    silu_arguments.to[static_cast<int64_t>(row) * silu_arguments.size + i] = flashmla_to_bf16(silu(gate) * up);
  }
};

struct Queried {
  static constexpr bool kApart = false;
  QueryArguments queries;

  __device__ void store(int row, int64_t /*group*/, int64_t output, float a, float b) const {
    const int64_t size = static_cast<int64_t>(queries.heads) * queries.head_dim;
    Pair pair = {a, b};
    Bf16* to = queries.queries + row * size + output;
    if (output >= size) {
      if (output >= size + queries.index_size) return;
      to = queries.index_queries + static_cast<int64_t>(row) * queries.index_size + output - size;
    } else if (const auto dim = static_cast<int>(output) % queries.head_dim;
               dim >= queries.head_dim - 2 * queries.rope.half) {
      const int index = (dim - (queries.head_dim - 2 * queries.rope.half)) / 2;
      pair = turned(pair, queries.rope, max(queries.table.positions[row], 0), index, 1.0F);
    }
    to[0] = flashmla_to_bf16(pair.a);
    to[1] = flashmla_to_bf16(pair.b);
  }
};

// Chunks on their way: those of the next batch are loaded while one is used.
template <int kTiles>
struct Batch {
  uint4 upper[kAhead<kTiles>];
  uint4 lower[kAhead<kTiles>];
  uint4 rows[kAhead<kTiles>][kTiles];
};

// A block computes 16 outputs of a group for all rows; its warps share the inputs chunk by chunk. Within a chunk thread
// t of a row's four has inputs 8t to 8t + 7: any order serves, as long as weights and rows have the same.
template <int kTiles, class Before, class After>
__global__ void __launch_bounds__(kThreads, 2) skinny_kernel(Product a, Before before, After after) {
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
  const auto place_of = [&](int begin, int i) { return min(begin + i * kWarps, chunks - 1) * kChunk; };
  const auto load = [&](Batch<kTiles>& batch, int begin) {
#pragma unroll
    for (int i = 0; i < kAhead<kTiles>; ++i) {
      batch.upper[i] = load_weights(upper + place_of(begin, i));
      batch.lower[i] = load_weights(lower + place_of(begin, i));
    }
  };
  const auto load_rows = [&](Batch<kTiles>& batch, int begin) {
#pragma unroll
    for (int i = 0; i < kAhead<kTiles>; ++i) {
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        batch.rows[i][tile] = *reinterpret_cast<const uint4*>(row[tile] + place_of(begin, i));
      }
    }
  };
  const auto use = [&](Batch<kTiles>& batch, int begin) {
#pragma unroll
    for (int i = 0; i < kAhead<kTiles>; ++i) {
      if (begin + i * kWarps >= chunks) break;
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        uint4& v = batch.rows[i][tile];
        before.change(v, min(tile * kRows + quad, rows - 1), place_of(begin, i) + 8 * pair);
        const uint4& high = batch.upper[i];
        const uint4& low = batch.lower[i];
        multiply_tile(sum[tile], {high.x, low.x, high.y, low.y}, {v.x, v.y});
        multiply_tile(sum[tile], {high.z, low.z, high.w, low.w}, {v.z, v.w});
      }
    }
  };
  constexpr int kStep = kWarps * kAhead<kTiles>;
  Batch<kTiles> even;
  Batch<kTiles> odd;
  load(even, warp);  // nobody writes weights
  wait_for_predecessor();
  load_rows(even, warp);
  for (int begin = warp; begin < chunks; begin += 2 * kStep) {
    const bool goes_on = begin + kStep < chunks;
    if (goes_on) {
      load(odd, begin + kStep);
      load_rows(odd, begin + kStep);
    }
    use(even, begin);
    if (!goes_on) break;
    if (begin + 2 * kStep < chunks) {
      load(even, begin + 2 * kStep);
      load_rows(even, begin + 2 * kStep);
    }
    use(odd, begin + kStep);
  }
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    partial[warp][quad][tile * kRows + 2 * pair] = sum[tile][0];
    partial[warp][quad][tile * kRows + 2 * pair + 1] = sum[tile][1];
    partial[warp][quad + 8][tile * kRows + 2 * pair] = sum[tile][2];
    partial[warp][quad + 8][tile * kRows + 2 * pair + 1] = sum[tile][3];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kOutputs / 2 * rows; i += kThreads) {
    const int of_pair = i % (kOutputs / 2);
    const int at = i / (kOutputs / 2);
    const int output = After::kApart ? of_pair : 2 * of_pair;
    const int other = After::kApart ? of_pair + kOutputs / 2 : 2 * of_pair + 1;
    float total = 0;
    float other_total = 0;
    for (int w = 0; w < kWarps; ++w) {
      total += partial[w][output][at];
      other_total += partial[w][other][at];
    }
    after.store(at, group, first + output, total, other_total);
  }
}

template <class Before, class After>
void multiply(const Product& product, const Before& before, const After& after, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((product.outputs + kOutputs - 1) / kOutputs),
                  static_cast<unsigned>(product.groups));
  const LaunchShape shape = {grid, kThreads, 0, stream};
  if (product.rows <= kRows) {
    launch(skinny_kernel<1, Before, After>, shape, product, before, after);
  } else {
    launch(skinny_kernel<2, Before, After>, shape, product, before, after);
  }
}

}  // namespace

bool is_skinny(const Product& product) {
  return product.rows <= 2 * kRows && product.inputs % kChunk == 0;
}

void multiply_skinny(const Product& product, cudaStream_t stream) {
  multiply(product, AsTheyAre{}, Stored{product}, stream);
}

void multiply_gate_up(const Product& product, const SiluArguments& silu, cudaStream_t stream) {
  multiply(product, AsTheyAre{}, Activated{silu}, stream);
}

void multiply_queries(const Product& product, const QueryArguments& queries, cudaStream_t stream) {
  multiply(product, AsTheyAre{}, Queried{queries}, stream);
}

void multiply_turned(const Product& product, const TurnBackArguments& turn, cudaStream_t stream) {
  multiply(product, TurnedBack{turn.table.positions, turn.rope}, Stored{product}, stream);
}

}  // namespace sweep::engine::embedded::cuda
