#include "kernels/cuda/kernel.cuh"

namespace flashmla::cuda {

Kernels kernels_v41() {
  return {describe_kernel<V41, 8, 4>(), describe_kernel<V41, 8, 8>(), describe_kernel<V41, 16, 4>(),
          describe_kernel<V41, 16, 8>(), describe_kernel<V41, 32, 4>()};
}

}  // namespace flashmla::cuda
