#include <cuda_runtime.h>

namespace flashmla::cuda {

template <int kRows>
__global__ void fill(float* out) {
  __shared__ float shared[kRows];
  shared[threadIdx.x % kRows] = static_cast<float>(kRows);
  __syncthreads();
  out[threadIdx.x] = shared[(threadIdx.x + 1) % kRows];
}

void launch_fill(float* out) {
  fill<16><<<1, 32>>>(out);
  fill<32><<<1, 32>>>(out);
}

}  // namespace flashmla::cuda
