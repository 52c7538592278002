#include "kernels/cuda/kernel.cuh"

namespace flashmla::cuda {

FLASHMLA_KERNELS_OF(V4)

}  // namespace flashmla::cuda
