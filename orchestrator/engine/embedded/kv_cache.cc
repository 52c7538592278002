#include "orchestrator/engine/embedded/kv_cache.h"

#include <sys/mman.h>

#include <new>

#include "flashmla/records.h"
#include "orchestrator/base/check.h"
#include "orchestrator/engine/embedded/simd.h"

namespace sweep::engine::embedded {

namespace {

constexpr int64_t kRecordDataBytes = 576;  // upstream pads pages to a multiple of it

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

ZeroedMemory::ZeroedMemory(size_t bytes) {
  if (bytes == 0) return;
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = std::unique_ptr<std::byte, UnmapMemory>(static_cast<std::byte*>(memory), UnmapMemory{bytes});
}

void UnmapMemory::operator()(std::byte* memory) const {
  ::munmap(memory, bytes);
}

RecordPool::RecordPool(int64_t pages, int64_t tokens_per_page)
    : num_pages(pages),
      page_stride_bytes(round_up(flashmla_v4_page_bytes(static_cast<int32_t>(tokens_per_page)), kRecordDataBytes)),
      page_size(static_cast<int32_t>(tokens_per_page)) {
  memory = ZeroedMemory(static_cast<size_t>(num_pages * page_stride_bytes));
}

void RecordPool::write(int64_t page, int64_t offset, const float* latent, int64_t nope_dim) {
  auto* const first = reinterpret_cast<uint8_t*>(memory.data()) + page * page_stride_bytes;
  flashmla_v4_write(first, page_size, static_cast<int32_t>(offset), latent, latent + nope_dim);
}

flashmla_sparse_kv RecordPool::view() const {
  flashmla_sparse_kv kv = {};
  kv.pool = memory.data();
  kv.num_pages = num_pages;
  kv.page_stride_bytes = page_stride_bytes;
  kv.page_size = page_size;
  kv.format = FLASHMLA_KV_V4_584;
  return kv;
}

IndexKeyPool::IndexKeyPool(int64_t pages, int64_t keys_per_page, int64_t key_dim)
    : dim(key_dim), stride(round_up(keys_per_page, kScoreColumns)) {
  memory = ZeroedMemory(static_cast<size_t>(pages * dim * stride) * sizeof(float));
}

float* IndexKeyPool::page(int64_t number) const {
  return reinterpret_cast<float*>(memory.data()) + number * dim * stride;
}

KvCache::KvCache(const ModelConfig& config, int64_t num_blocks)
    : block_size_(config.kv_block_size), num_blocks_(num_blocks) {
  for (const int64_t ratio : config.compress_ratios) {
    LayerCache cache;
    cache.window = RecordPool(num_blocks, block_size_);
    if (ratio > 0) {
      cache.compressed = RecordPool(num_blocks, block_size_ / ratio);
      cache.index_keys = IndexKeyPool(num_blocks, block_size_ / ratio, config.index_head_dim);
    }
    layers_.push_back(std::move(cache));
  }
  for (int64_t block = num_blocks; block-- > 0;) free_.push_back(static_cast<int32_t>(block));
}

bool KvCache::allocate(int64_t count, std::vector<int32_t>& blocks) {
  if (count > free_blocks()) return false;
  for (int64_t i = 0; i < count; ++i) {
    blocks.push_back(free_.back());
    free_.pop_back();
  }
  return true;
}

void KvCache::release(std::vector<int32_t>& blocks) {
  free_.insert(free_.end(), blocks.rbegin(), blocks.rend());
  blocks.clear();
  SWEEPCTL_CHECK(free_blocks() <= num_blocks_);
}

}  // namespace sweep::engine::embedded
