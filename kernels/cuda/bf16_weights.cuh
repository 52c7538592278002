// Weights of value products in BF16.
#pragma once

#include "kernels/cuda/query.cuh"
#include "kernels/cuda/record.cuh"

namespace flashmla::cuda {

// B operands of a group's tokens for 8 heads: as BF16, and what that lacks.
struct Bf16Weights {
  uint2 high, low;

  __device__ __forceinline__ static Bf16Weights of(const float (&weights)[4]) {
    const uint2 rounded = {pack_bf16x2(weights[0], weights[1]), pack_bf16x2(weights[2], weights[3])};
    return {rounded,
            {rest_of_bf16(rounded.x, weights[0], weights[1]), rest_of_bf16(rounded.y, weights[2], weights[3])}};
  }

  // `both`: a power of two, twice.
  __device__ __forceinline__ void multiply(uint32_t both) {
    high = {multiply_bf16x2(high.x, both), multiply_bf16x2(high.y, both)};
    low = {multiply_bf16x2(low.x, both), multiply_bf16x2(low.y, both)};
  }

  // A chunk's products, to the results of heads 8n..8n+7.
  template <int kInstructions, int kTiles>
  __device__ __forceinline__ void add_products(const uint32_t (&a)[kInstructions][4], int n,
                                               float (&results)[kInstructions][kTiles][4]) const {
#pragma unroll
    for (int m = 0; m < kInstructions; ++m) mma_bf16(results[m][n], a[m], low.x, low.y);
#pragma unroll
    for (int m = 0; m < kInstructions; ++m) mma_bf16(results[m][n], a[m], high.x, high.y);
  }

  // Of 16 dimensions.
  __device__ __forceinline__ void add_product(const uint32_t (&a)[4], float (&results)[4]) const {
    mma_bf16(results, a, low.x, low.y);
    mma_bf16(results, a, high.x, high.y);
  }
};

// Values in F16 that were E4M3, which are exact in BF16, too.
template <int kInstructions>
__device__ __forceinline__ void convert_to_bf16(uint32_t (&a)[kInstructions][4]) {
#pragma unroll
  for (int m = 0; m < kInstructions; ++m) {
#pragma unroll
    for (int r = 0; r < 4; ++r) a[m][r] = f16x2_to_bf16x2(a[m][r]);
  }
}

}  // namespace flashmla::cuda
