#include "kernels/cpu/tile_ops.h"

#include <cstdlib>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace flashmla::cpu {
namespace {

#if defined(__x86_64__)
// Asked of the processor itself: not every compiler's __builtin_cpu_supports() knows the name.
bool has_f16c() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

const TileOps& choose() {
  const TileOpsList list = available_tile_ops();
  if (const char* wanted = std::getenv("FLASHMLA_CPU_ISA")) {
    for (int32_t i = 0; i < list.count; ++i) {
      if (std::strcmp(wanted, list.of[i]->isa) == 0) return *list.of[i];
    }
  }
  return *list.of[list.count - 1];
}

}  // namespace

TileOpsList available_tile_ops() {
  TileOpsList list = {{&kGenericTileOps}, 1};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c()) {
    list.of[list.count++] = &kAvx2TileOps;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq")) {
      list.of[list.count++] = &kAvx512TileOps;
    }
  }
#endif
  return list;
}

const TileOps& tile_ops() {
  static const TileOps& chosen = choose();
  return chosen;
}

}  // namespace flashmla::cpu
