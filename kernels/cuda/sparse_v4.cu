#include "kernels/cuda/kernel.cuh"

namespace flashmla::cuda {

Kernels kernels_v4() {
  return {describe_kernel<V4, 8, 4>(), describe_kernel<V4, 8, 8>(), describe_kernel<V4, 16, 4>(),
          describe_kernel<V4, 16, 8>(), describe_kernel<V4, 32, 4>()};
}

}  // namespace flashmla::cuda
