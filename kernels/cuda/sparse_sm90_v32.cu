#include "kernels/cuda/warpgroup_kernel.cuh"

namespace flashmla::cuda {

Kernels kernels_v32_sm90() {
  return describe_warpgroup_kernels<V32>();
}

}  // namespace flashmla::cuda
