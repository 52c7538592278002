// Kernels that write the KV cache: records of the window, compressed latents and index keys.
#include <algorithm>

#include "orchestrator/engine/embedded/cuda/device_ops.cuh"

namespace sweep::engine::embedded::cuda {

namespace {

constexpr int kMostHeadDim = 576;
constexpr int kMostIndexDim = 1024;
constexpr int kMostRatio = 128;

__device__ float warp_max(float value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffU, value, distance));
  }
  return value;
}

// Warp by warp: E4M3 groups of `kGroup` values. Calls scale(group, exponent) by one lane.
template <int kGroup, class Scale>
__device__ void write_e4m3_groups(const float* values, int groups, uint8_t* data, Scale scale) {
  const int lane = threadIdx.x % kWarp;
  for (int group = threadIdx.x / kWarp; group < groups; group += kThreads / kWarp) {
    const float* const from = values + group * kGroup;
    float largest = 0;
    for (int i = lane; i < kGroup; i += kWarp) largest = fmaxf(largest, fabsf(from[i]));
    const int exponent = flashmla_scale_exponent(warp_max(largest));
    const float inverse = flashmla_power_of_two(-exponent);
    for (int i = lane; i < kGroup; i += kWarp) data[group * kGroup + i] = flashmla_to_e4m3(from[i] * inverse);
    if (lane == 0) scale(group, exponent);
  }
}

__device__ void write_bf16(const float* values, int count, uint8_t* data) {
  for (int i = threadIdx.x; i < count; i += kThreads) {
    reinterpret_cast<uint16_t*>(data)[i] = flashmla_to_bf16(values[i]);
  }
}

// A whole block writes one record from `values` in shared memory; the bytes are those of flashmla/records.h.
__device__ void write_record(const Records& records, int64_t page_number, int offset, const float* values) {
  uint8_t* const page = records.pool + page_number * records.page_stride;
  const int64_t size = records.page_size;
  if (records.format == FLASHMLA_KV_V4_584) {
    uint8_t* const data = page + static_cast<int64_t>(offset) * 576;
    uint8_t* const scales = page + size * 576 + static_cast<int64_t>(offset) * 8;
    write_e4m3_groups<64>(values, 7, data,
                          [&](int group, int exponent) { scales[group] = static_cast<uint8_t>(exponent + 127); });
    if (threadIdx.x == 0) scales[7] = 0;
    write_bf16(values + 448, 64, data + 448);
  } else if (records.format == FLASHMLA_KV_V32_656) {
    uint8_t* const data = page + static_cast<int64_t>(offset) * 656;
    write_e4m3_groups<128>(values, 4, data, [&](int group, int exponent) {
      reinterpret_cast<float*>(data + 512)[group] = flashmla_power_of_two(exponent);
    });
    write_bf16(values + 512, 64, data + 528);
  } else if (records.format == FLASHMLA_KV_V41_528) {
    uint8_t* const scales = page + size * 512 + static_cast<int64_t>(offset) * 16;
    write_e4m3_groups<32>(values, 16, page + static_cast<int64_t>(offset) * 512,
                          [&](int group, int exponent) { scales[group] = static_cast<uint8_t>(exponent + 127); });
  } else if (threadIdx.x < 32) {  // V41_FP4_288: a thread for each group of 16
    const float* const in = values + 16 * threadIdx.x;
    uint8_t code = flashmla_to_e4m3(flashmla_absmax(in, 16) / 6.0F);
    if (code == 0) code = 1;
    const float scale = flashmla_e4m3_value(code);
    page[size * 256 + static_cast<int64_t>(offset) * 32 + threadIdx.x] = code;
    uint8_t* const data = page + static_cast<int64_t>(offset) * 256 + 8 * threadIdx.x;
    for (int i = 0; i < 8; ++i) {
      const uint32_t low = flashmla_to_e2m1(in[2 * i] / scale);
      const uint32_t high = flashmla_to_e2m1(in[2 * i + 1] / scale);
      data[i] = static_cast<uint8_t>(low | high << 4);
    }
  }
}

// Block (row, 0) norms the query's latent, block (row, 1) makes the window's record.
__global__ void latents_kernel(LatentArguments a) {
  wait_for_predecessor();
  const int64_t row = blockIdx.x;
  const bool is_record = blockIdx.y == 1;
  const int position = a.table.positions[row];
  if (is_record && position < 0) return;
  const int size = is_record ? a.window.head_dim : a.query_rank;
  const float* const from = a.projections + row * a.columns.stride + (is_record ? a.columns.kv : a.columns.query);
  const float* const weight = is_record ? a.kv_norm : a.query_norm;
  float squares = 0;
  for (int i = threadIdx.x; i < size; i += kThreads) squares += from[i] * from[i];
  const float factor = norm_factor(block_sum<kThreads>(squares), size, a.epsilon);
  if (!is_record) {
    for (int i = threadIdx.x; i < size; i += kThreads) {
      a.query_latents[row * size + i] = flashmla_to_bf16(from[i] * factor * weight[i]);
    }
    return;
  }
  __shared__ float values[kMostHeadDim];
  for (int i = threadIdx.x; i < size; i += kThreads) values[i] = from[i] * factor * weight[i];
  __syncthreads();
  rotate_in_block(values, size, a.rope, position);
  __syncthreads();
  const int page = block_of(a.table, a.table.segments[row], position, a.window.page_size);
  write_record(a.window, page, position % a.window.page_size, values);
}

__device__ const float* inputs_of(const CompressArguments& a, const ForwardInput::Segment& part, int position) {
  if (position >= part.start) {
    const int64_t row = part.first_row + position - part.start;
    return a.projections + row * a.columns.stride + a.columns.compressor;
  }
  const int64_t columns = a.compressed.head_dim + a.index_dim + 1;
  return a.ring + (static_cast<int64_t>(part.slot) * a.ring_rows + position % a.ring_rows) * columns;
}

// The g-th group that the segment touches is compressed, if it ends in it.
__device__ void compress_group(const CompressArguments& a, const ForwardInput::Segment& part, int number) {
  const int group = part.start / a.ratio + number;
  if ((group + 1) * a.ratio > part.start + part.tokens) return;
  const int head_dim = a.compressed.head_dim;
  const int columns = head_dim + a.index_dim;  // without the gate
  __shared__ float shares[kMostRatio];
  __shared__ float sum[kMostHeadDim + kMostIndexDim];
  for (int i = threadIdx.x; i < a.ratio; i += kThreads) {
    shares[i] = inputs_of(a, part, group * a.ratio + i)[columns] + a.position_bias[i];
  }
  __syncthreads();
  float largest = shares[0];
  for (int i = 1; i < a.ratio; ++i) largest = fmaxf(largest, shares[i]);
  __syncthreads();
  for (int i = threadIdx.x; i < a.ratio; i += kThreads) shares[i] = expf(shares[i] - largest);
  __syncthreads();
  float total = 0;
  for (int i = 0; i < a.ratio; ++i) total += shares[i];
  for (int c = threadIdx.x; c < columns; c += kThreads) {
    float value = 0;
    for (int i = 0; i < a.ratio; ++i) {
      value += shares[i] / total * inputs_of(a, part, group * a.ratio + i)[c];
    }
    sum[c] = value;
  }
  __syncthreads();
  float squares = 0;
  for (int i = threadIdx.x; i < head_dim; i += kThreads) squares += sum[i] * sum[i];
  const float factor = norm_factor(block_sum<kThreads>(squares), head_dim, a.epsilon);
  for (int i = threadIdx.x; i < head_dim; i += kThreads) sum[i] = sum[i] * factor * a.norm[i];
  __syncthreads();
  rotate_in_block(sum, head_dim, a.rope, static_cast<int64_t>(group) * a.ratio);
  __syncthreads();
  const int page_size = a.compressed.page_size;
  const int64_t page = block_of(a.table, static_cast<int>(blockIdx.y), group, page_size);
  const int place = group % page_size;
  write_record(a.compressed, page, place, sum);
  Bf16* const key = a.index_keys + (page * page_size + place) * a.index_dim;
  for (int d = threadIdx.x; d < a.index_dim; d += kThreads) key[d] = flashmla_to_bf16(sum[head_dim + d]);
}

// The i-th of the newest tokens that the ring has room for has its inputs kept.
__device__ void remember_token(const CompressArguments& a, const ForwardInput::Segment& part, int number) {
  const int token = max(0, part.tokens - a.ring_rows) + number;
  if (token >= part.tokens) return;
  const int64_t columns = a.compressed.head_dim + a.index_dim + 1;
  const int place = (part.start + token) % a.ring_rows;
  const float* const from =
      a.projections + static_cast<int64_t>(part.first_row + token) * a.columns.stride + a.columns.compressor;
  float* const to = a.ring + (static_cast<int64_t>(part.slot) * a.ring_rows + place) * columns;
  for (int i = threadIdx.x; i < columns; i += kThreads) to[i] = from[i];
}

// Block (i, part): the first `groups` blocks of a segment compress, the others keep inputs.
__global__ void compress_kernel(CompressArguments a, int groups) {
  wait_for_predecessor();
  const ForwardInput::Segment part = a.table.parts[blockIdx.y];
  const auto number = static_cast<int>(blockIdx.x);
  if (number < groups) {
    compress_group(a, part, number);
  } else {
    remember_token(a, part, number - groups);
  }
}

}  // namespace

void make_latents(const LatentArguments& arguments, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(arguments.table.rows), arguments.columns.kv >= 0 ? 2 : 1);
  launch(latents_kernel, {grid, kThreads, 0, stream}, arguments);
}

void compress(const CompressArguments& arguments, cudaStream_t stream) {
  const auto parts = static_cast<unsigned>(arguments.table.num_parts);
  const auto groups = static_cast<unsigned>(arguments.most_tokens / arguments.ratio + 1);
  const auto kept = static_cast<unsigned>(std::min(arguments.most_tokens, arguments.ring_rows));
  // A pass of few tokens keeps none in the place of one that a group of it needs: those are at most ratio - 1 tokens
  // before it, and the ring has room for FLASHMLA_MAX_QUERY_TOKENS more than a group.
  if (arguments.most_tokens <= FLASHMLA_MAX_QUERY_TOKENS) {
    launch(compress_kernel, {dim3(groups + kept, parts), kThreads, 0, stream}, arguments, static_cast<int>(groups));
  } else {
    launch(compress_kernel, {dim3(groups, parts), kThreads, 0, stream}, arguments, static_cast<int>(groups));
    launch(compress_kernel, {dim3(kept, parts), kThreads, 0, stream}, arguments, 0);
  }
}

}  // namespace sweep::engine::embedded::cuda
