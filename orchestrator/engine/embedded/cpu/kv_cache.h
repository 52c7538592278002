// The paged KV cache. One block number stands for the same place in the pools of all layers: kv_block_size tokens of
// the window cache, and the compressed latents and index keys of those tokens where the layer has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "flashmla/flashmla.h"
#include "orchestrator/engine/embedded/model_config.h"

namespace sweep::engine::embedded::cpu {

struct UnmapMemory {
  size_t bytes = 0;
  void operator()(std::byte* memory) const;
};

// Zeroed memory from the system, given page by page when first touched.
class ZeroedMemory {
 public:
  ZeroedMemory() = default;
  explicit ZeroedMemory(size_t bytes);  // throws std::bad_alloc
  std::byte* data() const { return memory_.get(); }

 private:
  std::unique_ptr<std::byte, UnmapMemory> memory_;
};

// A pool of records.
struct RecordPool {
  ZeroedMemory memory;
  int64_t num_pages = 0;
  int64_t page_stride_bytes = 0;
  int32_t page_size = 0;
  flashmla_kv_format format = FLASHMLA_KV_V4_584;

  RecordPool() = default;
  RecordPool(int64_t pages, int64_t tokens_per_page, const KvLayout& layout);

  // Stores one latent: the NoPE part, then the RoPE part with its rotation applied.
  void write(int64_t page, int64_t offset, const float* latent);

  // The pool as an argument of the kernels, without a selection.
  flashmla_sparse_kv view() const;
};

// Index keys of compressed latents: a page is [dim, stride] so that neighbours lie side by side for each dimension.
struct IndexKeyPool {
  ZeroedMemory memory;
  int64_t dim = 0;
  int64_t stride = 0;  // keys of one page, padded

  IndexKeyPool() = default;
  IndexKeyPool(int64_t pages, int64_t keys_per_page, int64_t key_dim);

  float* page(int64_t number) const;
};

struct LayerCache {
  RecordPool window;      // no pages if the model has none
  RecordPool compressed;  // no pages if the layer has none
  IndexKeyPool index_keys;
};

class KvCache {
 public:
  KvCache(const ModelConfig& config, int64_t num_blocks);

  LayerCache& layer(int64_t index) { return layers_[static_cast<size_t>(index)]; }
  int64_t block_size() const { return block_size_; }

 private:
  int64_t block_size_;
  std::vector<LayerCache> layers_;
};

}  // namespace sweep::engine::embedded::cpu
