#include "kernels/cuda/kernel.cuh"

namespace flashmla::cuda {

Kernels kernels_v41_fp4() {
  return {describe_kernel<V41Fp4, 8, 4>(), describe_kernel<V41Fp4, 8, 8>(), describe_kernel<V41Fp4, 16, 4>(),
          describe_kernel<V41Fp4, 16, 8>(), describe_kernel<V41Fp4, 32, 4>()};
}

}  // namespace flashmla::cuda
