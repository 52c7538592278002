#include "orchestrator/engine/embedded/cpu/simd_impl.h"

namespace sweep::engine::embedded::cpu {

using Generic = Kernels<4, 2, 4>;
const SimdKernels kSimdGeneric = {"generic", Generic::matmul, Generic::index_scores, Generic::to_bf16,
                                  Generic::from_bf16};

}  // namespace sweep::engine::embedded::cpu
