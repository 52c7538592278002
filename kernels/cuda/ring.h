// The warpgroup kernel's ring of slots, as numbers alone. The groups of a block are numbered through all of its rows,
// and lie in the slots in turn. Copying warps take pairs of them in turn. In each row the teams take tiles of groups in
// turn, and release their groups in order; a row's groups are all released before anyone reads one of the next row.
//
// A barrier tells the parity of a round, not which round it is: nobody may ask for a round before the last but one is
// over. It is over, since then
//   a team waits for its group n after it has read its tile before (or, of a row's first tiles, all rows before). Every
//   copying warp has a part of a full tile and fills slots in order, so that all groups before that tile have been
//   filled: group n - slots, which was in n's slot, is one of them.
//   a copying warp waits for the release of group n - slots. It has waited for that of some group of each tile up to
//   about n - slots; one of those tiles is the next one of the team that had n - 2 slots (or one of a later row).
// With more copying warps a team and its own ones can run ahead of the others by more than a round.
#pragma once

#if defined(__CUDACC__)
#define FLASHMLA_EVERYWHERE __host__ __device__ __forceinline__
#else
#define FLASHMLA_EVERYWHERE inline
#endif

namespace flashmla::cuda {

constexpr int kPair = 2;  // groups that a copying warp takes at a time

struct Ring {
  int teams;
  int tile;  // groups of a tile
  int slots;
  int copiers;

  FLASHMLA_EVERYWHERE constexpr bool is_sound() const {
    if (tile % kPair != 0 || slots < tile || kPair * copiers > (teams > 1 ? tile : slots)) return false;
    return teams == 1 || slots > (teams + 1) * tile;
  }

  FLASHMLA_EVERYWHERE constexpr int slot(int number) const { return number % slots; }
  FLASHMLA_EVERYWHERE constexpr int round(int number) const { return number / slots; }
};

}  // namespace flashmla::cuda

#undef FLASHMLA_EVERYWHERE
