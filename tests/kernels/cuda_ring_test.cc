// The warpgroup kernel's rings, played through by copying warps and teams that stop and go at random: barriers as those
// of the GPU, of which only a parity can be asked.
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

// One block: rows of so many groups, all with the same rings. `sharing`: all teams in one ring, as it must not be.
class Block {
 public:
  Block(const Ring& ring, std::vector<int> rows, bool sharing)
      : ring_(ring), rows_(std::move(rows)), sharing_(sharing), slots_(ring.teams * ring.slots) {
    filled_.assign(static_cast<size_t>(slots_), Barrier(1));
    free_.assign(static_cast<size_t>(slots_), Barrier(kWarpsOfTeam));
    content_.assign(static_cast<size_t>(slots_), -1);
    readers_.assign(static_cast<size_t>(slots_), 0);
    for (int team = 0; team < ring.teams; ++team) {
      std::vector<int> groups;  // as `group()` names them
      int before = 0;
      for (const int row : rows_) {
        for (int nth = 0; nth < ring.share(row, team); ++nth) groups.push_back(before + ring.place_in_row(nth, team));
        before += row;
      }
      groups_.push_back(groups);
      for (int copier = 0; copier < ring.copiers; ++copier) copiers_.push_back({team, copier * kPair});
      for (int warp = 0; warp < kWarpsOfTeam; ++warp) warps_.push_back({team, 0});
    }
  }

  // Empty: all groups were read, each once by each warp of its team and as itself.
  std::string play(std::mt19937& random) {
    const size_t actors = copiers_.size() + warps_.size();
    std::vector<int> patience(actors);
    while (true) {
      // Some are slow for a while.
      for (int& of_one : patience) of_one = random() % 3 == 0 ? 40 : 1;
      bool moved = false;
      for (int step = 0; step < 400; ++step) {
        const size_t who = random() % actors;
        if (random() % static_cast<unsigned>(patience[who]) != 0) continue;
        moved |= who < copiers_.size() ? copy(copiers_[who]) : read(warps_[who - copiers_.size()]);
        if (!fault_.empty()) return fault_;
      }
      if (std::all_of(warps_.begin(), warps_.end(), [&](const Actor& warp) { return done(warp); })) return {};
      if (!moved && ++stuck_ > 100) return "nobody moves";
      if (moved) stuck_ = 0;
    }
  }

 private:
  struct Actor {
    int team, next;
  };
  const std::vector<int>& groups_of(const Actor& actor) const { return groups_[static_cast<size_t>(actor.team)]; }
  bool done(const Actor& actor) const { return actor.next >= static_cast<int>(groups_of(actor).size()); }
  int group(const Actor& actor) const { return groups_of(actor)[static_cast<size_t>(actor.next)]; }

  // Where the actor's next group lies.
  struct Spot {
    size_t slot;
    int round;
  };
  Spot spot(const Actor& actor) const {
    if (sharing_) return {static_cast<size_t>(group(actor) % slots_), group(actor) / slots_};
    return {static_cast<size_t>(ring_.slot(actor.next, actor.team)), ring_.round(actor.next)};
  }

  bool copy(Actor& copier) {
    if (done(copier)) return false;
    const auto [slot, round] = spot(copier);
    if (round > 0 && !free_[slot].is_over(round - 1)) return false;
    if (content_[slot] >= 0) fault_ = "group " + std::to_string(content_[slot]) + " is overwritten";
    content_[slot] = group(copier);
    filled_[slot].arrive();
    copier.next += copier.next % kPair == kPair - 1 ? 1 + kPair * (ring_.copiers - 1) : 1;
    return true;
  }

  bool read(Actor& warp) {
    if (done(warp)) return false;
    const auto [slot, round] = spot(warp);
    if (!filled_[slot].is_over(round)) return false;
    if (content_[slot] != group(warp)) {
      fault_ = "group " + std::to_string(content_[slot]) + " instead of " + std::to_string(group(warp));
    }
    if (++readers_[slot] == kWarpsOfTeam) readers_[slot] = 0, content_[slot] = -1;
    free_[slot].arrive();
    ++warp.next;
    return true;
  }

  Ring ring_;
  std::vector<int> rows_;
  bool sharing_;
  int slots_;
  std::vector<Barrier> filled_, free_;
  std::vector<int> content_, readers_;
  std::vector<std::vector<int>> groups_;
  std::vector<Actor> copiers_, warps_;
  std::string fault_;
  int stuck_ = 0;
};

// The kernels' rings, and the smallest that are sound.
std::vector<Ring> sound_rings() {
  return {{3, 4, 6, 1}, {2, 4, 9, 2},  {2, 4, 4, 2}, {1, 8, 14, 4}, {1, 8, 8, 4},
          {1, 4, 4, 2}, {1, 4, 10, 1}, {3, 4, 4, 2}, {2, 4, 5, 1},  {4, 2, 2, 1}};
}

std::string first_fault(const Ring& ring, bool sharing) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    std::vector<int> rows(1 + random() % 6);
    for (int& row : rows) row = static_cast<int>(random() % 3 == 0 ? random() % 7 : random() % 140);
    const std::string fault = Block(ring, rows, sharing).play(random);
    if (!fault.empty()) return fault;
  }
  return {};
}

TEST_CASE("ring: every group of a row is one team's, in the order of the row") {
  for (const Ring& ring : sound_rings()) {
    for (int groups = 0; groups < 100; ++groups) {
      std::vector<int> owners(static_cast<size_t>(groups), -1);
      for (int team = 0; team < ring.teams; ++team) {
        int before = -1;
        for (int nth = 0; nth < ring.share(groups, team); ++nth) {
          const int place = ring.place_in_row(nth, team);
          REQUIRE(place > before);
          REQUIRE(place < groups);
          REQUIRE(owners[static_cast<size_t>(place)] == -1);
          REQUIRE(place / ring.tile % ring.teams == team);
          owners[static_cast<size_t>(place)] = team;
          before = place;
        }
      }
      CHECK(std::find(owners.begin(), owners.end(), -1) == owners.end());
    }
  }
}

TEST_CASE("ring: teams and copying warps of any speed read every group as itself") {
  for (const Ring& ring : sound_rings()) {
    CAPTURE(ring.teams, ring.tile, ring.slots, ring.copiers);
    REQUIRE(ring.is_sound());
    CHECK(first_fault(ring, false).empty());
  }
}

TEST_CASE("ring: rings that are not sound, and one ring for all teams, are told from sound ones") {
  CHECK_FALSE(Ring{3, 4, 6, 4}.is_sound());
  CHECK_FALSE(first_fault({3, 4, 6, 4}, false).empty());
  CHECK_FALSE(Ring{1, 4, 3, 1}.is_sound());
  CHECK_FALSE(Ring{1, 3, 6, 1}.is_sound());
  // What the kernels had: 18 slots for two teams, of which each has its own two copying warps.
  CHECK_FALSE(first_fault({2, 4, 9, 2}, true).empty());
}

}  // namespace
}  // namespace flashmla::cuda
