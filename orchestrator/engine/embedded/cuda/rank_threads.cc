#include "orchestrator/engine/embedded/cuda/rank_threads.h"

#include "orchestrator/engine/embedded/cuda/runtime.h"

namespace sweep::engine::embedded::cuda {

RankThreads::RankThreads(int64_t ranks) : failures_(static_cast<size_t>(ranks)) {
  for (int64_t rank = 1; rank < ranks; ++rank) threads_.emplace_back([this, rank] { serve(rank); });
}

RankThreads::~RankThreads() {
  stop_ = true;
  ++round_;
  round_.notify_all();
}

void RankThreads::call(int64_t rank) {
  auto& failure = failures_[static_cast<size_t>(rank)];
  failure = nullptr;
  try {
    check(cudaSetDevice(static_cast<int>(rank)), "cudaSetDevice");
    (*work_)(rank);
  } catch (...) {
    failure = std::current_exception();
  }
}

void RankThreads::serve(int64_t rank) {
  uint32_t seen = 0;
  while (true) {
    round_.wait(seen);
    ++seen;
    if (stop_) return;
    call(rank);
    if (--busy_ == 0) busy_.notify_one();
  }
}

void RankThreads::run(const std::function<void(int64_t)>& work) {
  work_ = &work;
  busy_ = static_cast<uint32_t>(threads_.size());
  if (!threads_.empty()) {
    ++round_;
    round_.notify_all();
  }
  call(0);
  for (uint32_t left = busy_; left != 0; left = busy_) busy_.wait(left);
  for (const auto& failure : failures_) {
    if (failure) std::rethrow_exception(failure);
  }
}

void RankThreads::run_first(const std::function<void()>& work) {
  check(cudaSetDevice(0), "cudaSetDevice");
  work();
}

}  // namespace sweep::engine::embedded::cuda
