// The threads of a context: started once, asleep between calls. Work is cut into units that are handed out one by one.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace flashmla::cpu {

class WorkerPool {
 public:
  // Called once per unit. `thread` is in [0, size()) and never used by two units at the same time.
  using Task = void (*)(void* argument, int64_t unit, int32_t thread);

  // `threads` >= 1 counts the caller of run(). Throws std::system_error if a thread cannot be started.
  explicit WorkerPool(int32_t threads);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int32_t size() const { return static_cast<int32_t>(workers_.size()) + 1; }

  // Runs task(argument, unit, thread) for every unit in [0, units) and returns when all are done. Allocates nothing.
  void run(int64_t units, Task task, void* argument);

 private:
  void work(int32_t thread);
  void take_units(int32_t thread);
  void stop();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  uint64_t generation_ = 0;  // counts jobs, so that a worker joins each at most once
  bool open_ = false;        // the current job still accepts workers
  bool stopping_ = false;
  int32_t busy_ = 0;
  Task task_ = nullptr;
  void* argument_ = nullptr;
  int64_t units_ = 0;
  std::atomic<int64_t> next_unit_ = 0;
  std::vector<std::thread> workers_;
};

}  // namespace flashmla::cpu
