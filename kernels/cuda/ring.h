// The warpgroup kernel's rings of slots, as numbers alone: which team has which of a row's groups, and where they lie.
// Each team has a ring of its own. Its groups are numbered through all rows of the block, and lie in its slots in turn;
// the copying warps of the team take pairs of them in turn.
//
// A barrier tells the parity of a round, not which round it is, so that nobody may be two rounds behind another:
//   a team waits for its group n after it has read group n - slots, which lay in the same slot a round before
//   a copying warp waits for the release of group n - slots after that of a group behind n - 2 slots: of the one that
//   it waited for `kPair * copiers` groups ago. A team releases its groups in their order.
// With slots that teams share, a team that runs ahead finds the barrier of a round before the last, and takes it.
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
  int tile;     // groups of a team's tile
  int slots;    // of a team
  int copiers;  // of a team

  FLASHMLA_EVERYWHERE constexpr bool is_sound() const { return slots >= kPair * copiers && slots >= tile && tile % kPair == 0; }

  // How many of a row's groups a team has: every teams-th tile.
  FLASHMLA_EVERYWHERE constexpr int share(int groups, int team) const {
    const int turn = teams * tile;
    const int rest = groups % turn - team * tile;
    return groups / turn * tile + (rest < 0 ? 0 : rest < tile ? rest : tile);
  }

  // Which group of the row the team's nth is.
  FLASHMLA_EVERYWHERE constexpr int place_in_row(int nth, int team) const {
    return (nth / tile * teams + team) * tile + nth % tile;
  }

  FLASHMLA_EVERYWHERE constexpr int slot(int number, int team) const { return team * slots + number % slots; }
  FLASHMLA_EVERYWHERE constexpr int round(int number) const { return number / slots; }
};

}  // namespace flashmla::cuda

#undef FLASHMLA_EVERYWHERE
