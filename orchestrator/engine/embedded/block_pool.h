// Block numbers of the paged KV cache. One number stands for the same place in the pools of all layers and devices.
#pragma once

#include <cstdint>
#include <vector>

namespace sweep::engine::embedded {

class BlockPool {
 public:
  // `block_size` tokens in a block.
  BlockPool(int64_t num_blocks, int64_t block_size);

  int64_t num_blocks() const { return num_blocks_; }
  int64_t free_blocks() const { return static_cast<int64_t>(free_.size()); }
  int64_t blocks_for(int64_t tokens) const { return (tokens + block_size_ - 1) / block_size_; }

  // Moves `count` blocks out of the free list into `blocks`; false, and nothing moved, if there are not enough.
  bool allocate(int64_t count, std::vector<int32_t>& blocks);
  // Gives all blocks back and empties the list.
  void release(std::vector<int32_t>& blocks);

 private:
  int64_t num_blocks_;
  int64_t block_size_;
  std::vector<int32_t> free_;
};

}  // namespace sweep::engine::embedded
