// Kernels of the DSpark draft head.
#include "orchestrator/engine/embedded/cuda/device_ops.cuh"

namespace sweep::engine::embedded::cuda {

namespace {

constexpr int kChooseRows = 32;  // tokens of the vocabulary that a block adds the Markov factor to

__global__ void draft_rows_kernel(DraftRowsArguments a) {
  wait_for_predecessor();
  const int64_t row = blockIdx.x;
  const int64_t sequence = row / a.count;
  const int64_t k = row % a.count;
  for (int i = threadIdx.x; i < a.size; i += kThreads) {
    a.hidden[row * a.size + i] = a.context[sequence * a.size + i] + from_bf16(a.position_embeddings[k * a.size + i]);
  }
}

__global__ void gather_features_kernel(const float* kept, const int32_t* slots, int64_t size, Bf16* to) {
  wait_for_predecessor();
  const int64_t sequence = blockIdx.y;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < size) to[sequence * size + i] = flashmla_to_bf16(kept[slots[sequence] * size + i]);
}

// Orders as (logit, -token): the largest is the best token, the first of equal ones.
__device__ uint64_t rank_of(float logit, int token) {
  const uint32_t bits = flashmla_float_bits(logit);
  const uint32_t order = (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
  return static_cast<uint64_t>(order) << 32 | (0xFFFFFFFFU - static_cast<uint32_t>(token));
}

// Written by another block: not from this one's cache.
__device__ uint64_t load_best(const uint64_t* best) {
  static_assert(sizeof(uint64_t) == sizeof(unsigned long long));
  return __ldcg(reinterpret_cast<const unsigned long long*>(best));
}

__device__ int token_of(uint64_t rank) {
  return static_cast<int>(0xFFFFFFFFU - static_cast<uint32_t>(rank & 0xFFFFFFFFU));
}

__device__ double block_sum_double(double value) {
  __shared__ double sums[kThreads / kWarp];
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffffU, value, distance);
  }
  __syncthreads();
  if (threadIdx.x % kWarp == 0) sums[threadIdx.x / kWarp] = value;
  __syncthreads();
  double total = 0;
  for (int i = 0; i < kThreads / kWarp; ++i) total += sums[i];
  return total;
}

// The first token whose cumulative share of softmax(logits / temperature) exceeds `uniform`.
__device__ int sample_token(const float* logits, int vocab, float largest, double temperature, double uniform) {
  __shared__ double prefix[kThreads];
  __shared__ int chosen;
  const int each = (vocab + kThreads - 1) / kThreads;
  const int begin = min(static_cast<int>(threadIdx.x) * each, vocab);
  const int end = min(begin + each, vocab);
  const auto share = [&](int token) {
    return exp((static_cast<double>(__ldcg(logits + token)) - static_cast<double>(largest)) / temperature);
  };
  double own = 0;
  for (int token = begin; token < end; ++token) own += share(token);
  const double wanted = uniform * block_sum_double(own);
  prefix[threadIdx.x] = own;
  if (threadIdx.x == 0) chosen = -1;
  __syncthreads();
  double before = 0;
  for (int i = 0; i < static_cast<int>(threadIdx.x); ++i) before += prefix[i];
  if (before <= wanted && before + own > wanted) {
    double sum = before;
    int token = begin;
    while (token < end - 1 && (sum += share(token)) <= wanted) ++token;
    chosen = token;
  }
  __syncthreads();
  return chosen;
}

// Adds the Markov factor to kChooseRows logits of a sequence; the sequence's last block to arrive chooses.
__global__ void choose_kernel(ChooseArguments a) {
  wait_for_predecessor();
  const int64_t sequence = blockIdx.y;
  const int64_t place = sequence * a.count + a.position;
  const int previous = a.position == 0 ? a.last_tokens[sequence] : a.tokens[place - 1];
  float* const logits = a.logits + place * a.vocab;
  const Bf16* const code = a.markov_in + static_cast<int64_t>(previous) * a.rank;
  const bool is_masked = a.position < a.masked[sequence];
  const int warp = threadIdx.x / kWarp;
  const int lane = threadIdx.x % kWarp;
  __shared__ uint64_t best[kThreads / kWarp];
  uint64_t own = 0;
  const int end = min((static_cast<int>(blockIdx.x) + 1) * kChooseRows, a.vocab);
  for (int token = static_cast<int>(blockIdx.x) * kChooseRows + warp; token < end; token += kThreads / kWarp) {
    const Bf16* const factor = a.markov_out + static_cast<int64_t>(token) * a.rank;
    float bias = 0;
    for (int d = lane; d < a.rank; d += kWarp) bias += from_bf16(code[d]) * from_bf16(factor[d]);
    for (int distance = kWarp / 2; distance > 0; distance /= 2) bias += __shfl_xor_sync(0xffffffffU, bias, distance);
    const float logit = is_masked && token == a.end_token ? a.impossible : logits[token] + bias;
    if (lane == 0) logits[token] = logit;
    own = max(own, rank_of(logit, token));
  }
  if (lane == 0) best[warp] = own;
  __shared__ bool is_last;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (const uint64_t other : best) own = max(own, other);
    a.best[sequence * gridDim.x + blockIdx.x] = own;
    __threadfence();
    is_last = atomicAdd(&a.arrived[sequence], 1U) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  own = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += kThreads)
    own = max(own, load_best(a.best + sequence * gridDim.x + i));
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    own = max(own, __shfl_xor_sync(0xffffffffU, own, distance));
  }
  if (lane == 0) best[warp] = own;
  __syncthreads();
  for (const uint64_t other : best) own = max(own, other);
  int token = token_of(own);
  if (const float temperature = a.temperatures[sequence]; temperature > 0) {
    const int sampled =
        sample_token(logits, a.vocab, __ldcg(logits + token), static_cast<double>(temperature), a.uniforms[place]);
    if (sampled >= 0) token = sampled;
  }
  if (threadIdx.x == 0) {
    a.tokens[place] = token;
    a.arrived[sequence] = 0;
  }
}

}  // namespace

void make_draft_rows(const DraftRowsArguments& arguments, cudaStream_t stream) {
  launch(draft_rows_kernel, {static_cast<unsigned>(arguments.sequences * arguments.count), kThreads, 0, stream},
         arguments);
}

void gather_features(const float* kept, const int32_t* slots, int32_t sequences, int64_t size, Bf16* to,
                     cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((size + kThreads - 1) / kThreads), static_cast<unsigned>(sequences));
  launch(gather_features_kernel, {grid, kThreads, 0, stream}, kept, slots, size, to);
}

int32_t choose_blocks(int32_t vocab) {
  return (vocab + kChooseRows - 1) / kChooseRows;
}

void choose_draft(const ChooseArguments& arguments, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(choose_blocks(arguments.vocab)), static_cast<unsigned>(arguments.sequences));
  launch(choose_kernel, {grid, kThreads, 0, stream}, arguments);
}

}  // namespace sweep::engine::embedded::cuda
