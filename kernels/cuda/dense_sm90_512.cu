#include "kernels/cuda/dense_kernel.cuh"

namespace flashmla::cuda {

Kernels kernels_dense512_sm90() {
  return dense::describe_all<8>();
}

}  // namespace flashmla::cuda
