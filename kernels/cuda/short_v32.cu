#include "kernels/cuda/short_kernel.cuh"

namespace flashmla::cuda {

Kernels kernels_v32_short() {
  return describe_short_kernels<V32>();
}

}  // namespace flashmla::cuda
