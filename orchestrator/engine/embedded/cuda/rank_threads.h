// A thread for each rank but the first, which is the caller's: CUDA's current device and captures belong to threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace sweep::engine::embedded::cuda {

class RankThreads {
 public:
  explicit RankThreads(int64_t ranks);
  ~RankThreads();
  RankThreads(const RankThreads&) = delete;
  RankThreads& operator=(const RankThreads&) = delete;

  // work(rank) of all ranks at the same time. Throws what the first failing rank threw, after all have ended. To be
  // called by one thread at a time, which may be another one each time.
  void run(const std::function<void(int64_t)>& work);
  // Of the first rank alone.
  void run_first(const std::function<void()>& work);

 private:
  void serve(int64_t rank);
  void call(int64_t rank);

  const std::function<void(int64_t)>* work_ = nullptr;
  std::vector<std::exception_ptr> failures_;
  std::atomic<uint32_t> round_{0};
  std::atomic<uint32_t> busy_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::jthread> threads_;
};

}  // namespace sweep::engine::embedded::cuda
