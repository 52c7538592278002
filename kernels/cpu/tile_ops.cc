#include "kernels/cpu/tile_ops.h"

#include <cstdlib>
#include <cstring>

namespace flashmla::cpu {
namespace {

const TileOps& choose() {
  const TileOps* candidates[3] = {&kGenericTileOps};
  int count = 1;
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
