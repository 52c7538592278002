#include "kernels/bench/shapes.h"

#include <algorithm>
#include <cmath>

#include "flashmla/records.h"
#include "kernels/api/layout.h"
#include "kernels/oracle/random.h"

namespace flashmla::bench {
namespace {

constexpr int32_t kPageSize = 64;

std::vector<uint8_t> make_pool(flashmla_kv_format format, int32_t slots, Random& random) {
  const int32_t pages = (slots + kPageSize - 1) / kPageSize;
  std::vector<uint8_t> pool(static_cast<size_t>(pages * page_bytes(format, kPageSize)));
  float values[kDenseDimsLong];
  for (int32_t slot = 0; slot < slots; ++slot) {
    for (float& value : values) value = random.normal();
    uint8_t* page = pool.data() + slot / kPageSize * page_bytes(format, kPageSize);
    const int32_t offset = slot % kPageSize;
    switch (format) {
      case FLASHMLA_KV_V4_584:
        flashmla_v4_write(page, kPageSize, offset, values, values + 448);
        break;
      case FLASHMLA_KV_V32_656:
        flashmla_v32_write(page, kPageSize, offset, values, values + 512);
        break;
      case FLASHMLA_KV_V41_528:
        flashmla_v41_write(page, kPageSize, offset, values);
        break;
      case FLASHMLA_KV_V41_FP4_288:
        flashmla_v41_fp4_write(page, kPageSize, offset, values);
        break;
    }
  }
  return pool;
}

flashmla_sparse_kv describe(flashmla_kv_format format, const std::vector<uint8_t>& pool,
                            const std::vector<int32_t>& indices, int32_t topk, int32_t s_q) {
  flashmla_sparse_kv kv{};
  kv.pool = pool.data();
  kv.page_stride_bytes = page_bytes(format, kPageSize);
  kv.num_pages = static_cast<int64_t>(pool.size()) / kv.page_stride_bytes;
  kv.page_size = kPageSize;
  kv.format = format;
  kv.indices = indices.data();
  kv.indices_query_stride = topk;
  kv.indices_batch_stride = int64_t{topk} * s_q;
  kv.topk = topk;
  return kv;
}

// `count` different slots below `slots`, ascending; those of `base` are kept with probability `shared`.
std::vector<int32_t> select(const std::vector<int32_t>& base, int32_t count, int32_t slots, double shared,
                            Random& random) {
  std::vector<bool> taken(static_cast<size_t>(slots), false);
  int32_t chosen = 0;
  for (const int32_t slot : base) {
    if (random.uniform() >= shared) continue;
    taken[static_cast<size_t>(slot)] = true;
    ++chosen;
  }
  while (chosen < count) {
    const auto slot = static_cast<size_t>(random.integer(0, slots - 1));
    if (taken[slot]) continue;
    taken[slot] = true;
    ++chosen;
  }
  std::vector<int32_t> result;
  for (int32_t slot = 0; slot < slots; ++slot) {
    if (taken[static_cast<size_t>(slot)]) result.push_back(slot);
  }
  return result;
}

}  // namespace

std::vector<Shape> shapes() {
  std::vector<Shape> list;
  list.push_back({.name = "prompt", .batch = 64, .s_q = 16});
  list.push_back({.name = "prompt-unshared", .batch = 64, .s_q = 16, .shared = 0.0});
  list.push_back({.name = "verify", .batch = 1, .s_q = 8});
  list.push_back({.name = "decode", .batch = 1, .s_q = 1});
  list.push_back({.name = "decode-batch64", .batch = 64, .s_q = 1});
  list.push_back({.name = "verify-16-heads-1024", .batch = 1, .s_q = 8, .num_heads = 16, .extra_topk = 1024});
  list.push_back({.name = "verify-64-heads", .batch = 1, .s_q = 8, .num_heads = 64});
  list.push_back(
      {.name = "v32-2048", .format = FLASHMLA_KV_V32_656, .batch = 2, .s_q = 8, .main_topk = 2048, .extra_topk = 0});
  list.push_back({.name = "v41-verify", .format = FLASHMLA_KV_V41_528, .batch = 1, .s_q = 8});
  list.push_back({.name = "v41-fp4-verify", .format = FLASHMLA_KV_V41_FP4_288, .batch = 1, .s_q = 8});
  return list;
}

Workload::Workload(const Shape& shape) {
  Random random(7);
  const int32_t rows = shape.batch * shape.s_q;
  const int32_t d_qk = record_layout(shape.format).d_qk;
  const auto heads = static_cast<size_t>(rows) * static_cast<size_t>(shape.num_heads);
  const int32_t main_slots = rows + shape.main_topk;
  for (size_t i = 0; i < heads * static_cast<size_t>(d_qk); ++i) q_.push_back(flashmla_to_bf16(random.normal()));
  out_.resize(heads * kValueDims);
  lse_.resize(heads);
  sink_.assign(static_cast<size_t>(shape.num_heads), 0.5F);
  main_pool_ = make_pool(shape.format, main_slots, random);
  for (int32_t row = 0; row < rows; ++row) {
    for (int32_t i = 0; i < shape.main_topk; ++i) main_indices_.push_back(row + i);
  }
  if (shape.extra_topk > 0) {
    extra_pool_ = make_pool(shape.format, shape.extra_slots, random);
    for (int32_t b = 0; b < shape.batch; ++b) {
      const std::vector<int32_t> base = select({}, shape.extra_topk, shape.extra_slots, 0, random);
      for (int32_t t = 0; t < shape.s_q; ++t) {
        const std::vector<int32_t> row = select(base, shape.extra_topk, shape.extra_slots, shape.shared, random);
        extra_indices_.insert(extra_indices_.end(), row.begin(), row.end());
      }
    }
  }
  params_.batch = shape.batch;
  params_.s_q = shape.s_q;
  params_.num_heads = shape.num_heads;
  params_.d_qk = d_qk;
  params_.d_v = kValueDims;
  params_.q = q_.data();
  params_.q_head_stride = d_qk;
  params_.q_token_stride = int64_t{d_qk} * shape.num_heads;
  params_.q_batch_stride = params_.q_token_stride * shape.s_q;
  params_.main = describe(shape.format, main_pool_, main_indices_, shape.main_topk, shape.s_q);
  if (shape.extra_topk > 0) {
    params_.extra = describe(shape.format, extra_pool_, extra_indices_, shape.extra_topk, shape.s_q);
  }
  params_.attn_sink = sink_.data();
  params_.softmax_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(d_qk)));
  params_.out = out_.data();
  params_.out_head_stride = kValueDims;
  params_.out_token_stride = int64_t{kValueDims} * shape.num_heads;
  params_.out_batch_stride = params_.out_token_stride * shape.s_q;
  params_.lse = lse_.data();
  params_.lse_head_stride = 1;
  params_.lse_token_stride = shape.num_heads;
  params_.lse_batch_stride = int64_t{shape.num_heads} * shape.s_q;
  flops_ = 2.0 * static_cast<double>(heads) * (shape.main_topk + shape.extra_topk) * (d_qk + kValueDims);
}

}  // namespace flashmla::bench
