// The kernels as the host code sees them.
#pragma once

#include <cuda_runtime_api.h>

#include <array>

#include "kernels/cuda/arguments.h"

namespace flashmla::cuda {

struct Grid {
  int32_t rows;         // sparse: query tokens of all requests; dense: requests
  int32_t head_blocks;  // blocks that share a row's heads
  int32_t splits;       // blocks of a cluster that share a row's tokens
};

struct Kernel {
  int32_t heads;  // of a block
  cudaError_t (*launch)(const DecodeArguments& arguments, const Grid& grid, cudaStream_t stream);
  cudaError_t (*prepare)();
};

// Ordered by the number of heads.
using Kernels = std::array<Kernel, 3>;

extern const Kernels kernels_V4;
extern const Kernels kernels_V32;
extern const Kernels kernels_V41;
extern const Kernels kernels_V41Fp4;

}  // namespace flashmla::cuda
