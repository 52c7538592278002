// The warpgroup kernel's ring, played through by copying warps and teams that stop and go at random, with barriers of
// which, as on the GPU, only a parity can be asked.
#include "kernels/cuda/ring.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace flashmla::cuda {
namespace {

class Barrier {
 public:
  explicit Barrier(int count) : count_(count), missing_(count) {}
  void arrive() {
    if (--missing_ == 0) missing_ = count_, ++phase_;
  }
  // What the GPU says: the phase of this parity is not the one under way.
  bool is_over(int parity) const { return (phase_ & 1) != (parity & 1); }

 private:
  int count_, missing_;
  int phase_ = 0;
};

constexpr int kWarpsOfTeam = 4;

// One block, that has rows of so many groups one after another.
class Block {
 public:
  Block(const Ring& ring, const std::vector<int>& rows)
      : ring_(ring), slots_(static_cast<size_t>(ring.slots), Slot{Barrier(1), Barrier(kWarpsOfTeam)}) {
    copiers_.resize(static_cast<size_t>(ring.copiers));
    warps_.resize(static_cast<size_t>(ring.teams * kWarpsOfTeam));
    unread_.resize(rows.size());
    int pair = 0, before = 0;
    for (size_t row = 0; row < rows.size(); ++row) {
      for (int group = 0; group < rows[row]; ++group) {
        if (group % kPair == 0) ++pair;
        copiers_[static_cast<size_t>((pair - 1) % ring.copiers)].groups.push_back({before + group, row});
        const int team = group / ring.tile % ring.teams;
        for (int warp = 0; warp < kWarpsOfTeam; ++warp) {
          warps_[static_cast<size_t>(kWarpsOfTeam * team + warp)].groups.push_back({before + group, row});
        }
      }
      unread_[row] = kWarpsOfTeam * rows[row];
      before += rows[row];
    }
  }

  // Empty: every group was read by each warp of its team, and as itself.
  std::string play(std::mt19937& random) {
    const size_t actors = copiers_.size() + warps_.size();
    std::vector<unsigned> patience(actors);
    for (int stuck = 0; stuck < 100;) {
      for (unsigned& of_one : patience) of_one = random() % 3 == 0 ? 40 : 1;  // some are slow for a while
      bool moved = false;
      for (int step = 0; step < 400; ++step) {
        const size_t who = random() % actors;
        if (random() % patience[who] != 0) continue;
        moved |= who < copiers_.size() ? copy(copiers_[who]) : read(warps_[who - copiers_.size()]);
        if (!fault_.empty()) return fault_;
      }
      if (std::all_of(warps_.begin(), warps_.end(), [](const Actor& warp) { return warp.at_end(); })) return {};
      stuck = moved ? 0 : stuck + 1;
    }
    return "nobody moves";
  }

 private:
  struct Group {
    int number;
    size_t row;
  };
  struct Actor {
    std::vector<Group> groups;
    size_t next = 0;
    bool at_end() const { return next == groups.size(); }
  };
  struct Slot {
    Barrier filled, free;
    int content = -1;
    int readers = 0;
  };

  bool copy(Actor& copier) {
    if (copier.at_end()) return false;
    const int number = copier.groups[copier.next].number;
    Slot& slot = slots_[static_cast<size_t>(ring_.slot(number))];
    if (ring_.round(number) > 0 && !slot.free.is_over(ring_.round(number) - 1)) return false;
    if (slot.content >= 0) fault_ = "group " + std::to_string(slot.content) + " is overwritten";
    slot.content = number;
    slot.filled.arrive();
    ++copier.next;
    return true;
  }

  bool read(Actor& warp) {
    if (warp.at_end()) return false;
    const auto [number, row] = warp.groups[warp.next];
    if (row > 0 && unread_[row - 1] > 0) return false;
    Slot& slot = slots_[static_cast<size_t>(ring_.slot(number))];
    if (!slot.filled.is_over(ring_.round(number))) return false;
    if (slot.content != number) fault_ = std::to_string(slot.content) + " instead of " + std::to_string(number);
    if (++slot.readers == kWarpsOfTeam) slot.readers = 0, slot.content = -1;
    slot.free.arrive();
    --unread_[row];
    ++warp.next;
    return true;
  }

  Ring ring_;
  std::vector<Slot> slots_;
  std::vector<Actor> copiers_, warps_;
  std::vector<int> unread_;  // [row] groups times warps
  std::string fault_;
};

std::string first_fault(const Ring& ring) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    std::vector<int> rows(1 + random() % 6);
    for (int& row : rows) row = static_cast<int>(random() % 3 == 0 ? 1 + random() % 7 : 1 + random() % 140);
    const std::string fault = Block(ring, rows).play(random);
    if (!fault.empty()) return fault;
  }
  return {};
}

TEST_CASE("ring: teams and copying warps of any speed read every group as itself") {
  // The kernels' rings, and the smallest that are sound.
  const std::vector<Ring> rings = {{3, 4, 18, 2}, {3, 4, 20, 2}, {2, 4, 19, 2}, {2, 4, 16, 2},
                                   {1, 8, 10, 4}, {1, 4, 9, 1},  {3, 4, 17, 2}, {3, 4, 17, 1},
                                   {2, 4, 13, 2}, {2, 8, 25, 4}, {1, 8, 8, 4},  {1, 4, 4, 2}};
  for (const Ring& ring : rings) {
    CAPTURE(ring.teams, ring.tile, ring.slots, ring.copiers);
    CHECK(ring.is_sound());
    CHECK(first_fault(ring).empty());
  }
}

TEST_CASE("ring: more copying warps than a tile has pairs, or few slots, let some run ahead of others") {
  const std::vector<Ring> rings = {{2, 4, 18, 4}, {3, 4, 18, 4}, {2, 4, 8, 2}, {3, 4, 8, 2}, {1, 4, 4, 4}};
  for (const Ring& ring : rings) {
    CAPTURE(ring.teams, ring.tile, ring.slots, ring.copiers);
    CHECK_FALSE(ring.is_sound());
    CHECK_FALSE(first_fault(ring).empty());
  }
  CHECK_FALSE(Ring{1, 4, 3, 1}.is_sound());  // a tile has no room
  CHECK_FALSE(Ring{1, 3, 6, 1}.is_sound());  // a pair of two teams
}

}  // namespace
}  // namespace flashmla::cuda
