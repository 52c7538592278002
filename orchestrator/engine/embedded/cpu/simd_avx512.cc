#include "orchestrator/engine/embedded/cpu/simd_impl.h"

namespace sweep::engine::embedded::cpu {

using Avx512 = Kernels<16, 2, 12>;
const SimdKernels kSimdAvx512 = {"avx512", Avx512::matmul, Avx512::index_scores, Avx512::to_bf16, Avx512::from_bf16};

}  // namespace sweep::engine::embedded::cpu
