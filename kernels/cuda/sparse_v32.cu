#include "kernels/cuda/kernel.cuh"

namespace flashmla::cuda {

Kernels kernels_v32() {
  return {describe_kernel<V32, 8, 4>(), describe_kernel<V32, 8, 8>(), describe_kernel<V32, 16, 4>(),
          describe_kernel<V32, 16, 8>(), describe_kernel<V32, 32, 4>()};
}

}  // namespace flashmla::cuda
