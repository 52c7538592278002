#include "orchestrator/engine/embedded/cpu/worker_pool.h"

namespace sweep::engine::embedded::cpu {

namespace {

// Loops follow one another within microseconds; sleeping and waking costs more than that. Long enough for the gap
// between two loops, short enough to leave the core to the attention kernel's own threads.
constexpr int kSpins = 2000;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Returns when `value` differs from `old`.
void wait_for_change(const std::atomic<uint32_t>& value, uint32_t old) {
  for (int i = 0; i < kSpins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause_briefly();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

WorkerPool::WorkerPool(int threads) {
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
}

WorkerPool::~WorkerPool() {
  stop_.store(true, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
}

void WorkerPool::run(int64_t count, const std::function<void(int64_t)>& piece) {
  if (count <= 1 || workers_.empty()) {
    for (int64_t i = 0; i < count; ++i) piece(i);
    return;
  }
  piece_ = &piece;
  count_ = count;
  next_.store(0, std::memory_order_relaxed);
  busy_.store(static_cast<uint32_t>(workers_.size()), std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  take_pieces();
  while (const uint32_t busy = busy_.load(std::memory_order_acquire)) wait_for_change(busy_, busy);
}

void WorkerPool::take_pieces() {
  while (true) {
    const int64_t index = next_.fetch_add(1, std::memory_order_relaxed);
    if (index >= count_) return;
    (*piece_)(index);
  }
}

void WorkerPool::work() {
  uint32_t seen = 0;
  while (true) {
    wait_for_change(round_, seen);
    ++seen;
    if (stop_.load(std::memory_order_relaxed)) return;
    take_pieces();
    if (busy_.fetch_sub(1, std::memory_order_release) == 1) busy_.notify_one();
  }
}

}  // namespace sweep::engine::embedded::cpu
