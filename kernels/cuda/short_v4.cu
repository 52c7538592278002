#include "kernels/cuda/short_kernel.cuh"

namespace flashmla::cuda {

Kernels kernels_v4_short() {
  return describe_short_kernels<V4>();
}

}  // namespace flashmla::cuda
