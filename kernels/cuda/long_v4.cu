#include "kernels/cuda/long_kernel.cuh"

namespace flashmla::cuda {

Kernels kernels_v4_long() {
  return describe_long_kernels<V4>();
}

}  // namespace flashmla::cuda
