// Adds up the results of the clusters that shared a row.
#include "kernels/cuda/finish.cuh"
#include "kernels/cuda/launch.h"

namespace flashmla::cuda {
namespace {

constexpr int kCombineThreads = kPartialDims / 4;
constexpr int kAhead = 16;

// What a block reads of `Partials`, as Destination fills them: [row][part][head][512] FP32, then of the same shape
// {maximum, sum}.
struct PartialsOfHead {
  const float4* values;  // of this thread
  const float2* summaries;
  int32_t parts, heads;

  __device__ __forceinline__ PartialsOfHead(const Partials& all, int32_t rows, int32_t heads_of_row, int32_t row,
                                            int32_t index)
      : parts(all.parts), heads(heads_of_row) {
    const int64_t first = int64_t{row} * parts * heads + index;
    values = reinterpret_cast<const float4*>(all.values + first * kPartialDims) + threadIdx.x;
    summaries = reinterpret_cast<const float2*>(all.values + int64_t{rows} * parts * heads * kPartialDims) + first;
  }

  __device__ __forceinline__ float4 value(int part) const { return values[int64_t{part} * heads * kCombineThreads]; }
  __device__ __forceinline__ void copy_summaries(float2* to) const {
    for (int p = static_cast<int>(threadIdx.x); p < parts; p += kCombineThreads) {
      to[p] = summaries[int64_t{p} * heads];
    }
  }
};

}  // namespace

// One block per row and head. kTwo: there are parts of a second kernel. Not in the unnamed namespace: nvcc would make
// its name of the folder that the sources are in.
template <bool kTwo>
__global__ void __launch_bounds__(kCombineThreads)
    combine_kernel(const __grid_constant__ DecodeArguments a, const Partials second, int32_t rows, int32_t heads) {
  asm volatile("griddepcontrol.wait;" ::: "memory");  // for the end of the kernel before, if launched early
  const auto row = static_cast<int32_t>(blockIdx.x);
  const auto index = static_cast<int32_t>(blockIdx.y);
  const PartialsOfHead own({a.partial, static_cast<int32_t>(a.parts.divisor)}, rows, heads, row, index);
  const PartialsOfHead more(second, rows, heads, row, index);
  const int32_t parts = own.parts, all_parts = parts + (kTwo ? more.parts : 0);
  // All of the first values are on their way before anything is waited for.
  float4 ahead[kAhead];
#pragma unroll
  for (int p = 0; p < kAhead; ++p) {
    if (p < parts) ahead[p] = own.value(p);
  }
  __shared__ float2 shared_summaries[kTwo ? 2 * kMaxParts : kMaxParts];
  own.copy_summaries(shared_summaries);
  if constexpr (kTwo) more.copy_summaries(shared_summaries + parts);
  __syncthreads();
  float maximum = kNoMaximum;
  for (int p = 0; p < all_parts; ++p) maximum = fmaxf(maximum, shared_summaries[p].x);
  float sum = 0;
  float4 total = {0, 0, 0, 0};
  const auto add = [&](int p, const float4& v) {
    const float2 summary = shared_summaries[p];
    const float weight = summary.y * exp2_fast(summary.x - maximum);
    sum += weight;
    total.x = fmaf(v.x, weight, total.x);
    total.y = fmaf(v.y, weight, total.y);
    total.z = fmaf(v.z, weight, total.z);
    total.w = fmaf(v.w, weight, total.w);
  };
#pragma unroll
  for (int p = 0; p < kAhead; ++p) {
    if (p < parts) add(p, ahead[p]);
  }
#pragma unroll 8
  for (int p = kAhead; p < parts; ++p) add(p, own.value(p));
  if constexpr (kTwo) {
#pragma unroll 8
    for (int p = 0; p < more.parts; ++p) add(parts + p, more.value(p));
  }
  const auto b = static_cast<int32_t>(quotient(row, a.rows_per_request));
  // Sparse: a row is a query token; dense: a row has the heads of all query tokens.
  const int32_t token =
      heads > a.num_heads ? index / a.num_heads : row - b * static_cast<int32_t>(a.rows_per_request.divisor);
  const Head head = {true, token, index % a.num_heads};
  const float inverse = sum == 0 ? 0 : 1 / denominator(load_sink(a, head), maximum, sum);
  store_bf16x4(a.out + at(a.out_stride, b, head) + 4 * threadIdx.x, times(total, inverse), a.out_aligned);
  if (threadIdx.x == 0) a.lse[at(a.lse_stride, b, head)] = log_sum_exp(maximum, sum);
}

namespace {

template <bool kTwo>
cudaError_t launch(const DecodeArguments& arguments, const Partials& second, int32_t rows, int32_t heads, bool early,
                   cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(rows), static_cast<unsigned>(heads), 1);
  config.blockDim = dim3(kCombineThreads, 1, 1);
  config.stream = stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = early ? 1 : 0;
  return cudaLaunchKernelEx(&config, combine_kernel<kTwo>, arguments, second, rows, heads);
}

}  // namespace

cudaError_t combine(const DecodeArguments& arguments, int32_t rows, int32_t heads, bool early, cudaStream_t stream) {
  return launch<false>(arguments, {nullptr, 0}, rows, heads, early, stream);
}

cudaError_t combine_two(const DecodeArguments& arguments, const Partials& more, int32_t rows, int32_t heads,
                        cudaStream_t stream) {
  return launch<true>(arguments, more, rows, heads, false, stream);
}

}  // namespace flashmla::cuda
