#include "kernels/cuda/kernel.cuh"

namespace flashmla::cuda {

FLASHMLA_KERNELS_OF(V32)

}  // namespace flashmla::cuda
