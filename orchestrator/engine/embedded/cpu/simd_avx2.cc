#include "orchestrator/engine/embedded/cpu/simd_impl.h"

namespace sweep::engine::embedded::cpu {

using Avx2 = Kernels<8, 2, 6>;
const SimdKernels kSimdAvx2 = {"avx2", Avx2::matmul, Avx2::index_scores, Avx2::to_bf16, Avx2::from_bf16};

}  // namespace sweep::engine::embedded::cpu
