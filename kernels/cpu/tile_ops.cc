#include "kernels/cpu/tile_ops.h"

#include <cstdlib>
#include <cstring>

namespace flashmla::cpu {
namespace {

const TileOps& choose() {
  const TileOps* candidates[3] = {&kGenericTileOps};
  int count = 1;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c")) {
    candidates[count++] = &kAvx2TileOps;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq")) {
      candidates[count++] = &kAvx512TileOps;
    }
  }
#endif
  if (const char* wanted = std::getenv("FLASHMLA_CPU_ISA")) {
    for (int i = 0; i < count; ++i) {
      if (std::strcmp(wanted, candidates[i]->isa) == 0) return *candidates[i];
    }
  }
  return *candidates[count - 1];
}

}  // namespace

const TileOps& tile_ops() {
  static const TileOps& chosen = choose();
  return chosen;
}

}  // namespace flashmla::cpu
