// A thread for each rank: CUDA's current device and captures belong to threads. The caller only waits, so that it comes
// back whatever happens to the ranks. Knows no CUDA.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "orchestrator/engine/embedded/cuda/rank_group.h"

namespace sweep::engine::embedded::cuda {

class RankThreads {
 public:
  using Work = std::function<void(int64_t)>;
  struct Options {
    int64_t ranks = 1;
    Work begin = [](int64_t) {};    // in the rank's thread, before each work
    Work failed = [](int64_t) {};   // in the rank's thread, once it has failed
    Work release = [](int64_t) {};  // frees a rank that does not come back of what it waits for; in a thread of its
                                    // own, which nobody waits for
  };
  struct Limits {
    std::chrono::milliseconds all{0};                // until all ranks are back, as long as none has failed
    std::chrono::milliseconds after_failure{3'000};  // from then on, and once more from release
  };
  RankThreads(std::shared_ptr<RankGroup> group, Options options);
  // Does not wait for a rank that has not come back.
  ~RankThreads();
  RankThreads(const RankThreads&) = delete;
  RankThreads& operator=(const RankThreads&) = delete;

  // work(rank) of all ranks at the same time. Throws std::runtime_error with the group's failure, now and ever after;
  // after `limits.all` the first rank that is not back has failed. A rank that never comes back keeps its copy of
  // `work`, which must own what it uses. A single rank runs in the caller's thread, and what it throws is not caught.
  // To be called by one thread at a time.
  void run(Work work, const Limits& limits);

 private:
  struct Shared;
  static void serve(const std::shared_ptr<Shared>& shared, int64_t rank);
  void wait_for_all(const Limits& limits);

  std::shared_ptr<Shared> shared_;
  std::vector<std::thread> threads_;
};

}  // namespace sweep::engine::embedded::cuda
