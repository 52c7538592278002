// What the ranks of one model know of one another. A rank that fails takes no further part in sums, so that whoever
// waits for one would wait for ever: every wait looks here meanwhile, and the first failure is that of all. Knows no
// CUDA.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

namespace sweep::engine::embedded::cuda {

// Lets time pass between two looks at something that is mostly there within a millisecond.
class Pause {
 public:
  void operator()() {
    constexpr int kYields = 2000;
    constexpr std::chrono::microseconds kSleep{20};
    if (++count_ < kYields) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kSleep);
    }
  }

 private:
  int count_ = 0;
};

class RankGroup {
 public:
  explicit RankGroup(int64_t ranks) : ranks_(ranks) {}

  // The first report stays. Thread-safe, as is all that follows.
  void report(int64_t rank, const std::string& reason);
  bool has_failed() const { return has_failed_.load(std::memory_order_acquire); }
  // "rank 1 of 2: ..."; empty as long as there is none.
  std::string failure() const;

  // Returns once is_done() is true. Throws std::runtime_error when a rank has failed, or after `limit`; and what
  // is_done() throws.
  template <class IsDone>
  void wait(IsDone is_done, std::chrono::milliseconds limit) const {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    for (Pause pause; !is_done(); pause()) {
      if (has_failed()) throw std::runtime_error("another rank has failed");
      if (std::chrono::steady_clock::now() > deadline) give_up(limit);
    }
  }

 private:
  [[noreturn]] static void give_up(std::chrono::milliseconds limit);

  int64_t ranks_;
  std::atomic<bool> has_failed_{false};
  mutable std::mutex mutex_;
  std::string failure_;
};

}  // namespace sweep::engine::embedded::cuda
