#include "kernels/cuda/long_kernel.cuh"

namespace flashmla::cuda {

Kernels kernels_v32_long() {
  return describe_long_kernels<V32>();
}

}  // namespace flashmla::cuda
