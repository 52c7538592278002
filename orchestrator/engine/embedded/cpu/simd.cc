#include "orchestrator/engine/embedded/cpu/simd.h"

namespace sweep::engine::embedded::cpu {

namespace {

const SimdKernels& choose() {
#if defined(SWEEPCTL_EMBEDDED_X86)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq")) {
    return kSimdAvx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kSimdAvx2;
#endif
  return kSimdGeneric;
}

}  // namespace

const SimdKernels& simd() {
  static const SimdKernels& chosen = choose();
  return chosen;
}

}  // namespace sweep::engine::embedded::cpu
