#include "orchestrator/engine/embedded/cuda/rank_threads.h"

#include <exception>
#include <utility>

namespace sweep::engine::embedded::cuda {

// What a thread that does not come back may still use.
struct RankThreads::Shared {
  Shared(std::shared_ptr<RankGroup> ranks, Options given)
      : group(std::move(ranks)), options(std::move(given)), is_busy(static_cast<size_t>(options.ranks)) {}

  bool all_back() const {
    for (const auto& busy : is_busy)
      if (busy) return false;
    return true;
  }

  std::shared_ptr<RankGroup> group;
  Options options;
  Work work;  // of this round
  std::atomic<uint32_t> round{0};
  std::atomic<bool> stop{false};
  std::vector<std::atomic<bool>> is_busy;
};

RankThreads::RankThreads(std::shared_ptr<RankGroup> group, Options options)
    : shared_(std::make_shared<Shared>(std::move(group), std::move(options))) {
  if (shared_->options.ranks == 1) return;
  for (int64_t rank = 0; rank < shared_->options.ranks; ++rank)
    threads_.emplace_back([shared = shared_, rank] { serve(shared, rank); });
}

RankThreads::~RankThreads() {
  shared_->stop = true;
  ++shared_->round;
  shared_->round.notify_all();
  for (size_t rank = 0; rank < threads_.size(); ++rank) {
    if (shared_->is_busy[rank]) {
      threads_[rank].detach();
    } else {
      threads_[rank].join();
    }
  }
}

void RankThreads::serve(const std::shared_ptr<Shared>& shared, int64_t rank) {
  uint32_t seen = 0;
  while (true) {
    shared->round.wait(seen);
    ++seen;
    if (shared->stop) return;
    try {
      shared->options.begin(rank);
      Work(shared->work)(rank);
    } catch (const std::exception& failure) {
      // First of all: what follows may take its time.
      shared->group->report(rank, failure.what());
      shared->options.failed(rank);
    }
    shared->is_busy[static_cast<size_t>(rank)] = false;
  }
}

void RankThreads::run(Work work, const Limits& limits) {
  if (shared_->group->has_failed()) throw std::runtime_error(shared_->group->failure());
  if (threads_.empty()) {
    shared_->options.begin(0);
    return work(0);
  }
  shared_->work = std::move(work);
  for (auto& busy : shared_->is_busy) busy = true;
  ++shared_->round;
  shared_->round.notify_all();
  wait_for_all(limits);
  if (shared_->all_back()) shared_->work = nullptr;
  if (shared_->group->has_failed()) throw std::runtime_error(shared_->group->failure());
}

void RankThreads::wait_for_all(const Limits& limits) {
  using Clock = std::chrono::steady_clock;
  RankGroup& group = *shared_->group;
  auto deadline = Clock::now() + limits.all;
  bool is_failing = false;
  bool is_released = false;
  for (Pause pause; !shared_->all_back(); pause()) {
    if (group.has_failed() && !is_failing) {
      is_failing = true;
      deadline = Clock::now() + limits.after_failure;
    }
    if (Clock::now() < deadline) continue;
    if (is_released) return;
    is_released = is_failing = true;
    for (size_t rank = 0; rank < threads_.size(); ++rank) {
      if (!shared_->is_busy[rank]) continue;
      group.report(static_cast<int64_t>(rank), "has not come back after " + std::to_string(limits.all.count()) + " ms");
      std::thread([shared = shared_, rank] { shared->options.release(static_cast<int64_t>(rank)); }).detach();
    }
    deadline = Clock::now() + limits.after_failure;
  }
}

}  // namespace sweep::engine::embedded::cuda
