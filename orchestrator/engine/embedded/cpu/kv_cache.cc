#include "orchestrator/engine/embedded/cpu/kv_cache.h"

#include <sys/mman.h>

#include <new>

#include "flashmla/records.h"
#include "orchestrator/engine/embedded/cpu/simd.h"

namespace sweep::engine::embedded::cpu {

namespace {

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

RecordPool::RecordPool(int64_t pages, int64_t tokens_per_page, const KvLayout& layout)
    : num_pages(pages),
      page_stride_bytes(layout.page_stride_bytes(tokens_per_page)),
      page_size(static_cast<int32_t>(tokens_per_page)),
      format(layout.format) {
  memory = ZeroedMemory(static_cast<size_t>(num_pages * page_stride_bytes));
}

void RecordPool::write(int64_t page, int64_t offset, const float* latent) {
  auto* const first = reinterpret_cast<uint8_t*>(memory.data()) + page * page_stride_bytes;
  const auto place = static_cast<int32_t>(offset);
  switch (format) {
    case FLASHMLA_KV_V4_584:
      return flashmla_v4_write(first, page_size, place, latent, latent + 448);
    case FLASHMLA_KV_V32_656:
      return flashmla_v32_write(first, page_size, place, latent, latent + 512);
    case FLASHMLA_KV_V41_528:
      return flashmla_v41_write(first, page_size, place, latent);
    case FLASHMLA_KV_V41_FP4_288:
      return flashmla_v41_fp4_write(first, page_size, place, latent);
  }
}

flashmla_sparse_kv RecordPool::view() const {
  flashmla_sparse_kv kv = {};
  kv.pool = memory.data();
  kv.num_pages = num_pages;
  kv.page_stride_bytes = page_stride_bytes;
  kv.page_size = page_size;
  kv.format = format;
  return kv;
}

IndexKeyPool::IndexKeyPool(int64_t pages, int64_t keys_per_page, int64_t key_dim)
    : dim(key_dim), stride(round_up(keys_per_page, kScoreColumns)) {
  memory = ZeroedMemory(static_cast<size_t>(pages * dim * stride) * sizeof(float));
}

float* IndexKeyPool::page(int64_t number) const {
  return reinterpret_cast<float*>(memory.data()) + number * dim * stride;
}

KvCache::KvCache(const ModelConfig& config, int64_t num_blocks) : block_size_(config.kv_block_size) {
  const KvLayout& layout = *find_kv_layout(config.kv_layout);
  for (const int64_t ratio : config.compress_ratios) {
    LayerCache cache;
    if (config.has_window()) cache.window = RecordPool(num_blocks, block_size_, layout);
    if (ratio > 0) {
      cache.compressed = RecordPool(num_blocks, block_size_ / ratio, layout);
      cache.index_keys = IndexKeyPool(num_blocks, block_size_ / ratio, config.index_head_dim);
    }
    layers_.push_back(std::move(cache));
  }
}

}  // namespace sweep::engine::embedded::cpu
