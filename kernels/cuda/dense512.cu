#include "kernels/cuda/kernel.cuh"

namespace flashmla::cuda {

Kernels kernels_dense512() {
  return {describe_kernel<Dense512, 8, 4>(), describe_kernel<Dense512, 16, 4>(), describe_kernel<Dense512, 32, 4>()};
}

}  // namespace flashmla::cuda
