// Row-wise kernels: embedding, norms, rotation, activation.
#include "orchestrator/engine/embedded/cuda/device_ops.cuh"

namespace sweep::engine::embedded::cuda {

namespace {

constexpr int kNormThreads = 512;

__global__ void embed_kernel(EmbedArguments a) {
  wait_for_predecessor();
  const int row = blockIdx.x;
  const bool used = a.table.positions[row] >= 0;
  const Bf16* const from = a.embedding + static_cast<int64_t>(a.table.tokens[row]) * a.size;
  float* const to = a.hidden + static_cast<int64_t>(row) * a.size;
  for (int i = threadIdx.x; i < a.size; i += kThreads) to[i] = used ? from_bf16(from[i]) : 0.0F;
}

__global__ void add_norm_kernel(AddNormArguments a) {
  wait_for_predecessor();
  const int64_t row = blockIdx.x;
  float* const hidden = a.hidden + (a.gather != nullptr ? a.gather[row] : row) * a.size;
  float squares = 0;
  for (int i = threadIdx.x; i < a.size; i += kNormThreads) {
    float value = hidden[i];
    if (a.addend != nullptr) {
      value += a.addend[row * a.size + i];
      hidden[i] = value;
    }
    if (a.features != nullptr) a.features[row * a.features_stride + i] = value;
    squares += value * value;
  }
  const float factor = norm_factor(block_sum<kNormThreads>(squares), a.size, a.epsilon);
  for (int i = threadIdx.x; i < a.size; i += kNormThreads) {
    a.normed[row * a.size + i] = flashmla_to_bf16(hidden[i] * factor * a.weight[i]);
  }
}

// A block rotates one head of one row, or casts a piece of the indexer's queries.
__global__ void queries_kernel(QueryArguments a) {
  wait_for_predecessor();
  const int64_t row = blockIdx.x;
  const int head = blockIdx.y;
  const int query_size = a.heads * a.head_dim;
  const float* const raw = a.raw + row * (query_size + a.index_size);
  if (head >= a.heads) {
    const int begin = (head - a.heads) * a.head_dim;
    for (int i = begin + threadIdx.x; i < min(begin + a.head_dim, a.index_size); i += kThreads) {
      a.index_queries[row * a.index_size + i] = flashmla_to_bf16(raw[query_size + i]);
    }
    return;
  }
  const int nope = a.head_dim - 2 * a.rope.half;
  const int64_t position = max(a.table.positions[row], 0);
  Bf16* const to = a.queries + row * query_size + head * a.head_dim;
  for (int i = threadIdx.x; i < a.head_dim / 2; i += kThreads) {
    Pair pair = {raw[head * a.head_dim + 2 * i], raw[head * a.head_dim + 2 * i + 1]};
    if (2 * i >= nope) pair = turned(pair, a.rope, position, i - nope / 2, 1.0F);
    to[2 * i] = flashmla_to_bf16(pair.a);
    to[2 * i + 1] = flashmla_to_bf16(pair.b);
  }
}

__global__ void turn_back_kernel(TurnBackArguments a) {
  wait_for_predecessor();
  const int64_t row = blockIdx.x;
  const int head = blockIdx.y;
  const int nope = static_cast<int>(kValueDim) - 2 * a.rope.half;
  const int64_t position = max(a.table.positions[row], 0);
  Bf16* const values = a.outputs + (row * a.heads + head) * kValueDim + nope;
  for (int i = threadIdx.x; i < a.rope.half; i += kWarp) {
    const Pair pair = turned({from_bf16(values[2 * i]), from_bf16(values[2 * i + 1])}, a.rope, position, i, -1.0F);
    values[2 * i] = flashmla_to_bf16(pair.a);
    values[2 * i + 1] = flashmla_to_bf16(pair.b);
  }
}

__global__ void silu_kernel(SiluArguments a) {
  wait_for_predecessor();
  const int64_t row = blockIdx.y;
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i >= a.size) return;
  const float* const gate = a.gate_up + row * 2 * a.size + i / a.unit * 2 * a.unit + i % a.unit;
  a.to[row * a.size + i] = flashmla_to_bf16(silu(*gate) * gate[a.unit]);
}

}  // namespace

void embed(const EmbedArguments& arguments, cudaStream_t stream) {
  launch(embed_kernel, {static_cast<unsigned>(arguments.table.rows), kThreads, 0, stream}, arguments);
}

void add_norm(const AddNormArguments& arguments, cudaStream_t stream) {
  launch(add_norm_kernel, {static_cast<unsigned>(arguments.rows), kNormThreads, 0, stream}, arguments);
}

void make_queries(const QueryArguments& arguments, cudaStream_t stream) {
  const int pieces = arguments.heads + (arguments.index_size + arguments.head_dim - 1) / arguments.head_dim;
  const dim3 grid(static_cast<unsigned>(arguments.table.rows), static_cast<unsigned>(pieces));
  launch(queries_kernel, {grid, kThreads, 0, stream}, arguments);
}

void turn_back(const TurnBackArguments& arguments, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(arguments.table.rows), static_cast<unsigned>(arguments.heads));
  launch(turn_back_kernel, {grid, kWarp, 0, stream}, arguments);
}

void silu_multiply(const SiluArguments& arguments, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((arguments.size + kThreads - 1) / kThreads),
                  static_cast<unsigned>(arguments.rows));
  launch(silu_kernel, {grid, kThreads, 0, stream}, arguments);
}

}  // namespace sweep::engine::embedded::cuda
