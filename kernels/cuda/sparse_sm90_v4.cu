#include "kernels/cuda/warpgroup_kernel.cuh"

namespace flashmla::cuda {

Kernels kernels_v4_sm90() {
  return describe_warpgroup_kernels<V4>();
}

}  // namespace flashmla::cuda
