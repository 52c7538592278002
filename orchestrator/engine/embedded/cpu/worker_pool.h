// Threads that live as long as the engine and share the pieces of one loop at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace sweep::engine::embedded::cpu {

class WorkerPool {
 public:
  // `threads` >= 1, the calling thread included.
  explicit WorkerPool(int threads);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls piece(0) ... piece(count - 1), each once, on any thread; returns when all are done. Pieces must not throw.
  // To be called by one thread at a time.
  void run(int64_t count, const std::function<void(int64_t)>& piece);

 private:
  void work();
  void take_pieces();

  const std::function<void(int64_t)>* piece_ = nullptr;
  int64_t count_ = 0;
  std::atomic<int64_t> next_{0};
  std::atomic<uint32_t> round_{0};
  std::atomic<uint32_t> busy_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::jthread> workers_;
};

}  // namespace sweep::engine::embedded::cpu
