#include "kernels/cuda/kernel.cuh"

namespace flashmla::cuda {

FLASHMLA_KERNELS_OF(V41)

}  // namespace flashmla::cuda
