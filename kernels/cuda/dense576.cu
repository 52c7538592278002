#include "kernels/cuda/kernel.cuh"

namespace flashmla::cuda {

Kernels kernels_dense576() {
  return {describe_kernel<Dense576, 8, 4>(), describe_kernel<Dense576, 16, 4>(), describe_kernel<Dense576, 32, 4>()};
}

}  // namespace flashmla::cuda
