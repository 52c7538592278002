#include "kernels/cuda/dense_kernel.cuh"

namespace flashmla::cuda {

Kernels kernels_dense576_sm90() {
  return dense::describe_all<9>();
}

}  // namespace flashmla::cuda
