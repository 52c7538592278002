// Ranks that wait for one another, with condition variables in the place of GPUs and NCCL.
#include "orchestrator/engine/embedded/cuda/rank_threads.h"

#include <array>
#include <condition_variable>
#include <set>

#include "tests/support/catch.h"

using namespace sweep::engine::embedded::cuda;
using namespace std::chrono_literals;

namespace {

constexpr RankThreads::Limits kLong{.all = 10min, .after_failure = 10min};

class Door {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    opened_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [&] { return is_open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool is_open_ = false;
};

std::string failure_of(RankThreads& threads, const RankThreads::Work& work, const RankThreads::Limits& limits) {
  try {
    threads.run(work, limits);
  } catch (const std::runtime_error& failure) {
    return failure.what();
  }
  return {};
}

}  // namespace

TEST_CASE("rank threads: all ranks work at the same time, each in a thread of its own, round after round") {
  constexpr int64_t kRanks = 4;
  RankThreads threads(std::make_shared<RankGroup>(kRanks), {.ranks = kRanks});
  std::vector<std::set<std::thread::id>> used(kRanks);
  for (int round = 1; round <= 100; ++round) {
    std::atomic<int64_t> arrived = 0;
    threads.run(
        [&](int64_t rank) {
          used[static_cast<size_t>(rank)].insert(std::this_thread::get_id());
          ++arrived;
          while (arrived < kRanks) std::this_thread::yield();
        },
        kLong);
    CHECK(arrived == kRanks);
  }
  std::set<std::thread::id> all;
  for (const auto& ids : used) {
    CHECK(ids.size() == 1);
    all.insert(ids.begin(), ids.end());
  }
  CHECK(all.size() == kRanks);
  CHECK_FALSE(all.contains(std::this_thread::get_id()));
}

TEST_CASE("rank threads: a single rank works in the caller's thread, and its error is its own") {
  RankThreads threads(std::make_shared<RankGroup>(1), {.ranks = 1});
  std::thread::id used;
  threads.run([&](int64_t) { used = std::this_thread::get_id(); }, kLong);
  CHECK(used == std::this_thread::get_id());
  CHECK(failure_of(
            threads, [](int64_t) { throw std::runtime_error("out of memory"); }, kLong) == "out of memory");
}

TEST_CASE("rank threads: a rank that fails ends those that wait for it, and its reason is that of all") {
  constexpr int64_t kRanks = 3;
  const auto group = std::make_shared<RankGroup>(kRanks);
  std::array<std::atomic<int>, kRanks> told{};
  RankThreads threads(group, {.ranks = kRanks, .failed = [&](int64_t rank) { ++told[static_cast<size_t>(rank)]; }});
  const auto work = [&](int64_t rank) {
    if (rank == 1) throw std::runtime_error("an illegal memory access");
    group->wait([] { return false; }, 10min);  // for a sum that rank 1 takes no part in
  };
  CHECK(failure_of(threads, work, kLong) == "rank 1 of 3: an illegal memory access");
  for (const auto& count : told) CHECK(count == 1);
  // What comes later is not even begun.
  bool begun = false;
  CHECK(failure_of(
            threads, [&](int64_t) { begun = true; }, kLong) == "rank 1 of 3: an illegal memory access");
  CHECK_FALSE(begun);
}

TEST_CASE("rank threads: a rank that does not look is freed from outside") {
  const auto door = std::make_shared<Door>();
  RankThreads threads(std::make_shared<RankGroup>(2), {.ranks = 2, .release = [door](int64_t rank) {
                                                         if (rank == 0) door->open();
                                                       }});
  const auto came_back = std::make_shared<std::atomic<bool>>(false);
  const auto work = [door, came_back](int64_t rank) {
    if (rank == 1) throw std::runtime_error("no memory");
    door->wait();  // as in a call of the host that waits for the other rank
    *came_back = true;
  };
  CHECK(failure_of(threads, work, {.all = 10min, .after_failure = 1s}) == "rank 1 of 2: no memory");
  CHECK(*came_back);
}

TEST_CASE("rank threads: a rank that never comes back keeps nobody waiting") {
  struct Kept {
    Door door;
    Door left;
    std::string text = "what the rank still uses";
    std::atomic<size_t> length = 0;
  };
  auto kept = std::make_shared<Kept>();
  const std::weak_ptr<Kept> watched = kept;
  {
    // Nor does what was to free it.
    RankThreads threads(std::make_shared<RankGroup>(2),
                        {.ranks = 2, .release = [kept](int64_t) { kept->door.wait(); }});
    const auto work = [kept](int64_t rank) {
      if (rank == 0) throw std::runtime_error("failed");
      kept->door.wait();
      kept->length = kept->text.size();
      kept->left.open();
    };
    CHECK(failure_of(threads, work, {.all = 10min, .after_failure = 10ms}) == "rank 0 of 2: failed");
  }
  CHECK(watched.use_count() > 1);  // by the rank
  kept->door.open();
  kept->left.wait();
  CHECK(kept->length == kept->text.size());
}

TEST_CASE("rank threads: without a failure, a rank that is not back in time has failed") {
  const auto door = std::make_shared<Door>();
  RankThreads threads(std::make_shared<RankGroup>(2), {.ranks = 2, .release = [door](int64_t) { door->open(); }});
  const auto work = [door](int64_t rank) {
    if (rank == 1) door->wait();
  };
  CHECK(failure_of(threads, work, {.all = 20ms, .after_failure = 10min}) ==
        "rank 1 of 2: has not come back after 20 ms");
}

TEST_CASE("rank group: a wait ends when it is done, when it fails, when a rank has failed, and after its limit") {
  RankGroup group(2);
  int looks = 0;
  group.wait([&] { return ++looks == 5; }, 10min);
  CHECK(looks == 5);
  const auto reason = [&](auto is_done, std::chrono::milliseconds limit) {
    try {
      group.wait(is_done, limit);
    } catch (const std::runtime_error& failure) {
      return std::string(failure.what());
    }
    return std::string();
  };
  CHECK(reason([]() -> bool { throw std::runtime_error("the sum failed"); }, 10min) == "the sum failed");
  CHECK(reason([] { return false; }, 5ms) == "what was launched has not ended after 5 ms");
  CHECK_FALSE(group.has_failed());
  group.report(1, "first");
  group.report(0, "second");
  CHECK(group.failure() == "rank 1 of 2: first");
  CHECK(reason([] { return false; }, 10min) == "another rank has failed");
  CHECK(reason([] { return true; }, 10min).empty());
}
