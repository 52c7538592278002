#include "kernels/cpu/worker_pool.h"

namespace flashmla::cpu {

WorkerPool::WorkerPool(int32_t threads) {
  workers_.reserve(static_cast<size_t>(threads > 1 ? threads - 1 : 0));
  try {
    for (int32_t thread = 1; thread < threads; ++thread) workers_.emplace_back([this, thread] { work(thread); });
  } catch (...) {
    stop();
    throw;
  }
}

WorkerPool::~WorkerPool() {
  stop();
}

void WorkerPool::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

void WorkerPool::run(int64_t units, Task task, void* argument) {
  const bool shared = units > 1 && !workers_.empty();
  {
    const std::lock_guard lock(mutex_);
    task_ = task;
    argument_ = argument;
    units_ = units;
    next_unit_.store(0, std::memory_order_relaxed);
    open_ = shared;
    if (shared) ++generation_;
  }
  if (shared) wake_.notify_all();
  take_units(0);
  if (!shared) return;
  std::unique_lock lock(mutex_);
  open_ = false;  // a worker that wakes from now on finds nothing to do; those inside are waited for
  idle_.wait(lock, [this] { return busy_ == 0; });
}

void WorkerPool::take_units(int32_t thread) {
  for (;;) {
    const int64_t unit = next_unit_.fetch_add(1, std::memory_order_relaxed);
    if (unit >= units_) return;
    task_(argument_, unit, thread);
  }
}

void WorkerPool::work(int32_t thread) {
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stopping_ || (open_ && generation_ != seen); });
    if (stopping_) return;
    seen = generation_;
    ++busy_;
    lock.unlock();
    take_units(thread);
    lock.lock();
    if (--busy_ == 0) idle_.notify_one();
  }
}

}  // namespace flashmla::cpu
