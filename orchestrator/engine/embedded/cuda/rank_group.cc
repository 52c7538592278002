#include "orchestrator/engine/embedded/cuda/rank_group.h"

namespace sweep::engine::embedded::cuda {

void RankGroup::report(int64_t rank, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) return;
  failure_ = "rank " + std::to_string(rank) + " of " + std::to_string(ranks_) + ": " + reason;
  has_failed_.store(true, std::memory_order_release);
}

std::string RankGroup::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void RankGroup::give_up(std::chrono::milliseconds limit) {
  throw std::runtime_error("what was launched has not ended after " + std::to_string(limit.count()) + " ms");
}

}  // namespace sweep::engine::embedded::cuda
