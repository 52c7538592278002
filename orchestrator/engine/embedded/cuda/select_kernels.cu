// Kernels that decide which cached tokens a query sees.
#include <algorithm>

#include "orchestrator/engine/embedded/cuda/device_ops.cuh"

namespace sweep::engine::embedded::cuda {

namespace {

constexpr int kSelectThreads = 1024;
constexpr int kDigits = 256;  // of the search for the least score that is taken
constexpr int kScoreThreads = 128;
constexpr int kScoreKeys = 64;  // of a block
constexpr int kTile = 16;       // of the tensor instruction: heads and inner dimension
constexpr int kRowPadding = 8;  // elements between rows in shared memory, against bank conflicts

// The newest position of the group of query tokens that a row belongs to; -1 if all fill up.
__device__ int newest_of_group(const RowTable& table, int first_row) {
  int newest = -1;
  for (int i = 0; i < table.query_tokens; ++i) newest = max(newest, table.positions[first_row + i]);
  return newest;
}

__global__ void window_kernel(WindowArguments a) {
  wait_for_predecessor();
  const int64_t row = blockIdx.x;
  const int position = a.table.positions[row];
  const int count = min(position + 1, a.window);
  for (int i = threadIdx.x; i < a.window; i += kThreads) {
    int slot = -1;
    if (i < count) {
      const int at = position + 1 - count + i;
      slot = block_of(a.table, a.table.segments[row], at, a.table.block_size) * a.table.block_size +
             at % a.table.block_size;
    }
    a.slots[row * a.window + i] = slot;
  }
  if (threadIdx.x == 0 && row % a.table.query_tokens == 0) {
    a.lengths[row / a.table.query_tokens] = min(newest_of_group(a.table, static_cast<int>(row)) + 1, a.window);
  }
}

__device__ uint32_t load_pair(const Bf16* values) {
  return *reinterpret_cast<const uint32_t*>(values);
}

__device__ void multiply_tile(float (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// A block scores kScoreKeys groups for one row. Each warp takes every fourth tile of 16 heads.
__global__ void score_kernel(ScoreArguments a, int padded_heads, int padded_dim) {
  wait_for_predecessor();
  constexpr int kWarps = kScoreThreads / kWarp;
  extern __shared__ uint4 shared[];
  const int64_t row = blockIdx.y;
  const int first = static_cast<int>(blockIdx.x) * kScoreKeys;
  const int visible = visible_groups(a.table.positions[row], a.ratio, a.sees_own);
  if (first >= visible) return;
  const int stride = padded_dim + kRowPadding;
  Bf16* const queries = reinterpret_cast<Bf16*>(shared);
  Bf16* const keys = queries + padded_heads * stride;
  float* const weights = reinterpret_cast<float*>(keys + kScoreKeys * stride);
  float* const partial = weights + padded_heads;  // [warps, keys]
  const Bf16* const own_queries = a.queries + row * a.heads * a.dim;
  const auto key_at = [&](int key) {
    const int64_t page = block_of(a.table, a.table.segments[row], first + key, a.page_size);
    return a.keys + (page * a.page_size + (first + key) % a.page_size) * a.dim;
  };
  if (a.dim == padded_dim) {
    constexpr int kVector = sizeof(uint4) / sizeof(Bf16);
    const int vectors = a.dim / kVector;  // of a row
    const auto copy = [](Bf16* to, const Bf16* from) {
      *reinterpret_cast<uint4*>(to) = from != nullptr ? *reinterpret_cast<const uint4*>(from) : make_uint4(0, 0, 0, 0);
    };
    for (int i = threadIdx.x; i < padded_heads * vectors; i += kScoreThreads) {
      const int head = i / vectors;
      const int d = i % vectors * kVector;
      copy(queries + head * stride + d, head < a.heads ? own_queries + head * a.dim + d : nullptr);
    }
    for (int i = threadIdx.x; i < kScoreKeys * vectors; i += kScoreThreads) {
      const int key = i / vectors;
      const int d = i % vectors * kVector;
      copy(keys + key * stride + d, first + key < visible ? key_at(key) + d : nullptr);
    }
  } else {
    for (int i = threadIdx.x; i < padded_heads * padded_dim; i += kScoreThreads) {
      const int head = i / padded_dim;
      const int d = i % padded_dim;
      queries[head * stride + d] = head < a.heads && d < a.dim ? own_queries[head * a.dim + d] : Bf16{0};
    }
    for (int i = threadIdx.x; i < kScoreKeys * padded_dim; i += kScoreThreads) {
      const int key = i / padded_dim;
      const int d = i % padded_dim;
      keys[key * stride + d] = first + key < visible && d < a.dim ? key_at(key)[d] : Bf16{0};
    }
  }
  for (int i = threadIdx.x; i < padded_heads; i += kScoreThreads) {
    weights[i] = i < a.heads ? a.weights[row * a.weights_stride + i] : 0.0F;
  }
  __syncthreads();

  const int warp = threadIdx.x / kWarp;
  const int lane = threadIdx.x % kWarp;
  const int quad = lane / 4;  // row of a fragment
  const int pair = lane % 4 * 2;
  float sums[kScoreKeys / 8][2] = {};
  for (int head = warp * kTile; head < padded_heads; head += kWarps * kTile) {
    const float upper = weights[head + quad];
    const float lower = weights[head + quad + 8];
#pragma unroll
    for (int n = 0; n < kScoreKeys / 8; ++n) {
      float product[4] = {};
      for (int k = 0; k < padded_dim; k += kTile) {
        const Bf16* const q = queries + (head + quad) * stride + k + pair;
        const Bf16* const key = keys + (n * 8 + quad) * stride + k + pair;
        const uint32_t left[4] = {load_pair(q), load_pair(q + 8 * stride), load_pair(q + 8),
                                  load_pair(q + 8 * stride + 8)};
        const uint32_t right[2] = {load_pair(key), load_pair(key + 8)};
        multiply_tile(product, left, right);
      }
      sums[n][0] += upper * fmaxf(product[0], 0.0F) + lower * fmaxf(product[2], 0.0F);
      sums[n][1] += upper * fmaxf(product[1], 0.0F) + lower * fmaxf(product[3], 0.0F);
    }
  }
#pragma unroll
  for (int n = 0; n < kScoreKeys / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float sum = sums[n][i];
      for (int distance = 4; distance < kWarp; distance *= 2) sum += __shfl_xor_sync(0xffffffffU, sum, distance);
      if (quad == 0) partial[warp * kScoreKeys + n * 8 + pair + i] = sum;
    }
  }
  __syncthreads();
  for (int key = threadIdx.x; key < kScoreKeys && first + key < visible; key += kScoreThreads) {
    float sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += partial[w * kScoreKeys + key];
    a.scores[row * a.scores_stride + first + key] = sum;
  }
}

// An integer that orders as the score does; NaN, which has no order, is the worst.
__device__ uint32_t order_of(float score) {
  const uint32_t bits = flashmla_float_bits(score);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return 0;
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
}

// The digit at which the `wanted`-th value from above stands in a histogram of digits, found by one warp; `wanted`
// becomes its rank among those with this digit.
__device__ int find_digit(const int (&histogram)[kDigits], int& wanted) {
  constexpr int kOwn = kDigits / kWarp;
  const int lane = threadIdx.x % kWarp;
  int own = 0;
  for (int i = 0; i < kOwn; ++i) own += histogram[lane * kOwn + i];
  int with_above = own;  // and all digits above
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const int other = __shfl_down_sync(0xffffffffU, with_above, distance);
    if (lane + distance < kWarp) with_above += other;
  }
  int left = wanted - (with_above - own);
  int digit = lane * kOwn + kOwn - 1;
  const bool is_here = left > 0 && left <= own;
  while (is_here && histogram[digit] < left) left -= histogram[digit--];
  const int source = __ffs(static_cast<int>(__ballot_sync(0xffffffffU, is_here))) - 1;
  wanted = __shfl_sync(0xffffffffU, left, source);
  return __shfl_sync(0xffffffffU, digit, source);
}

// The scores of a row as integers: kept in shared memory where there is room, else made each time.
struct Orders {
  const uint32_t* shared;
  const float* scores;
  __device__ uint32_t at(int place) const { return shared != nullptr ? shared[place] : order_of(scores[place]); }
};

// The order of the `count`-th best of `visible` scores, and how many of those equal to it belong to the best.
__device__ uint32_t find_least(const Orders& orders, int visible, int count, int& ties) {
  __shared__ int histogram[kDigits];
  __shared__ uint32_t prefix;
  __shared__ int rank;
  uint32_t known = 0;
  int wanted = count;
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int i = threadIdx.x; i < kDigits; i += kSelectThreads) histogram[i] = 0;
    __syncthreads();
    for (int begin = 0; begin < visible; begin += kSelectThreads) {
      const int i = begin + static_cast<int>(threadIdx.x);
      const uint32_t order = i < visible ? orders.at(i) : 0;
      const bool counts = i < visible && (shift == 24 || order >> (shift + 8) == known);
      const uint32_t digit = counts ? order >> shift & 0xFFU : kDigits;
      // Most scores have the same first digits: a warp adds equal ones at once.
      const uint32_t equal = __match_any_sync(0xffffffffU, digit);
      if (counts && __ffs(static_cast<int>(equal)) - 1 == static_cast<int>(threadIdx.x % kWarp)) {
        atomicAdd(&histogram[digit], __popc(equal));
      }
    }
    __syncthreads();
    if (threadIdx.x < kWarp) {
      const int digit = find_digit(histogram, wanted);
      if (threadIdx.x == 0) {
        prefix = known << 8 | static_cast<uint32_t>(digit);
        rank = wanted;
      }
    }
    __syncthreads();
    known = prefix;
    wanted = rank;
  }
  ties = wanted;
  return known;
}

// The sum of the values of all threads before this one.
__device__ uint64_t sum_before(uint64_t value) {
  __shared__ uint64_t sums[kSelectThreads / kWarp];
  const int lane = threadIdx.x % kWarp;
  uint64_t sum = value;  // of the warp, up to this thread
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const uint64_t other = __shfl_up_sync(0xffffffffU, sum, distance);
    if (lane >= distance) sum += other;
  }
  if (lane == kWarp - 1) sums[threadIdx.x / kWarp] = sum;
  __syncthreads();
  uint64_t before = sum - value;
  for (unsigned w = 0; w < threadIdx.x / kWarp; ++w) before += sums[w];
  return before;
}

__global__ void select_kernel(SelectArguments a, int shared_orders) {
  wait_for_predecessor();
  extern __shared__ uint32_t kept_orders[];
  const int64_t row = blockIdx.x;
  const int position = a.table.positions[row];
  const int visible = visible_groups(position, a.ratio, a.sees_own);
  int32_t* const slots = a.slots + row * a.topk;
  const auto slot_of = [&](int place) {
    const int page = block_of(a.table, a.table.segments[row], place, a.page_size);
    return page * a.page_size + place % a.page_size;
  };
  if (threadIdx.x == 0 && row % a.table.query_tokens == 0) {
    const int newest = newest_of_group(a.table, static_cast<int>(row));
    a.lengths[row / a.table.query_tokens] = min(visible_groups(newest, a.ratio, a.sees_own), a.topk);
  }
  if (visible <= a.topk) {
    for (int i = threadIdx.x; i < a.topk; i += kSelectThreads) slots[i] = i < visible ? slot_of(i) : -1;
    return;
  }
  const float* const scores = a.scores + row * a.scores_stride;
  const bool keeps = visible <= shared_orders;
  for (int i = threadIdx.x; keeps && i < visible; i += kSelectThreads) kept_orders[i] = order_of(scores[i]);
  const Orders orders = {keeps ? kept_orders : nullptr, scores};
  __syncthreads();
  int ties = 0;
  const uint32_t least = find_least(orders, visible, a.topk, ties);
  // Each thread has consecutive places: what is before them says where its own go.
  const int each = (visible + kSelectThreads - 1) / kSelectThreads;
  const int begin = min(static_cast<int>(threadIdx.x) * each, visible);
  const int end = min(begin + each, visible);
  uint64_t counts = 0;  // better ones above, equal ones below
  for (int i = begin; i < end; ++i) {
    const uint32_t order = orders.at(i);
    counts += order > least ? uint64_t{1} << 32 : order == least ? 1 : 0;
  }
  const uint64_t before = sum_before(counts);
  auto better = static_cast<int>(before >> 32);
  auto equal = static_cast<int>(before & 0xFFFFFFFFU);
  for (int i = begin; i < end; ++i) {
    const uint32_t order = orders.at(i);
    if (order < least || (order == least && equal >= ties)) continue;
    slots[better + min(equal, ties)] = slot_of(i);
    (order > least ? better : equal) += 1;
  }
}

// More dynamic shared memory than every kernel has must be asked for.
template <class Kernel>
void allow_shared(Kernel kernel, size_t bytes) {
  constexpr size_t kAlways = 46 * 1024;  // beside what the kernels declare
  if (bytes <= kAlways) return;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
        "cudaFuncSetAttribute");
}

int padded(int value, int multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

void select_window(const WindowArguments& arguments, cudaStream_t stream) {
  launch(window_kernel, {static_cast<unsigned>(arguments.table.rows), kThreads, 0, stream}, arguments);
}

void score_groups(const ScoreArguments& arguments, cudaStream_t stream) {
  const int heads = padded(arguments.heads, kTile);
  const int dim = padded(arguments.dim, kTile);
  const int stride = dim + kRowPadding;
  const size_t bytes = static_cast<size_t>((heads + kScoreKeys) * stride) * sizeof(Bf16) +
                       static_cast<size_t>(heads + kScoreThreads / kWarp * kScoreKeys) * sizeof(float);
  allow_shared(score_kernel, bytes);
  const dim3 grid(static_cast<unsigned>((arguments.most_groups + kScoreKeys - 1) / kScoreKeys),
                  static_cast<unsigned>(arguments.table.rows));
  launch(score_kernel, {grid, kScoreThreads, bytes, stream}, arguments, heads, dim);
}

void select_groups(const SelectArguments& arguments, cudaStream_t stream) {
  constexpr int kMostShared = 160 * 1024;
  const bool chooses = arguments.most_groups > arguments.topk;
  const size_t bytes = chooses ? static_cast<size_t>(arguments.most_groups) * sizeof(uint32_t) : 0;
  const size_t used = bytes <= kMostShared ? bytes : 0;
  allow_shared(select_kernel, used);
  launch(select_kernel, {static_cast<unsigned>(arguments.table.rows), kSelectThreads, used, stream}, arguments,
         static_cast<int>(used / sizeof(uint32_t)));
}

}  // namespace sweep::engine::embedded::cuda
