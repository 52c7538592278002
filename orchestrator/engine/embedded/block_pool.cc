#include "orchestrator/engine/embedded/block_pool.h"

#include "orchestrator/base/check.h"

namespace sweep::engine::embedded {

BlockPool::BlockPool(int64_t num_blocks, int64_t block_size) : num_blocks_(num_blocks), block_size_(block_size) {
  for (int64_t block = num_blocks; block-- > 0;) free_.push_back(static_cast<int32_t>(block));
}

bool BlockPool::allocate(int64_t count, std::vector<int32_t>& blocks) {
  if (count > free_blocks()) return false;
  for (int64_t i = 0; i < count; ++i) {
    blocks.push_back(free_.back());
    free_.pop_back();
  }
  return true;
}

void BlockPool::release(std::vector<int32_t>& blocks) {
  free_.insert(free_.end(), blocks.rbegin(), blocks.rend());
  blocks.clear();
  SWEEPCTL_CHECK(free_blocks() <= num_blocks_);
}

}  // namespace sweep::engine::embedded
