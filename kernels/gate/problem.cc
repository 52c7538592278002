#include "kernels/gate/problem.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "flashmla/records.h"
#include "kernels/api/layout.h"
#include "kernels/gate/numbers.h"
#include "kernels/gate/sparse_cache.h"
#include "kernels/oracle/random.h"

namespace flashmla::gate {
namespace {

constexpr uint16_t kGuard16 = 0xa5a5;
constexpr uint32_t kGuard32 = 0xa5a5a5a5U;
constexpr int64_t kGuardElements = 64;  // before the first and behind the last row
constexpr uint16_t kNanBf16 = 0x7fff;

uint32_t bits_of(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

float guard_float() {
  float value = 0;
  std::memcpy(&value, &kGuard32, sizeof value);
  return value;
}

RowStrides make_strides(const Case& one, int64_t inner) {
  const int64_t gap = one.strided ? 3 : 0;
  const int64_t head = inner + gap;
  const int64_t token = head * one.num_heads + 2 * gap;
  return {token * one.s_q + 5 * gap, token, head};
}

int64_t elements(const RowStrides& strides, int32_t batch) {
  return strides.batch * batch + 2 * kGuardElements + 1;
}

}  // namespace

bool same_bytes(const Outputs& a, const Outputs& b) {
  return a.out == b.out && a.lse.size() == b.lse.size() &&
         (a.lse.empty() || std::memcmp(a.lse.data(), b.lse.data(), a.lse.size() * sizeof(float)) == 0);
}

Problem::Problem(const Case& one)
    : batch_(one.batch), s_q_(one.s_q), num_heads_(one.num_heads), first_(kGuardElements + (one.unaligned ? 1 : 0)) {
  out_strides_ = make_strides(one, kValueDims);
  lse_strides_ = make_strides(one, 1);
  if (one.dense) {
    make_dense(one);
  } else {
    make_sparse(one);
  }
}

void Problem::make_queries(const Case& one, int32_t d_qk) {
  Random random(one.seed ^ 0x71U);
  q_strides_ = make_strides(one, d_qk);
  q_.assign(static_cast<size_t>(elements(q_strides_, batch_)), kNanBf16);
  for (int32_t b = 0; b < batch_; ++b) {
    for (int32_t t = 0; t < s_q_; ++t) {
      for (int32_t h = 0; h < num_heads_; ++h) {
        uint16_t* row = q_.data() + first_ + b * q_strides_.batch + t * q_strides_.token + h * q_strides_.head;
        for (int32_t i = 0; i < d_qk; ++i) row[i] = flashmla_to_bf16(draw_query(one, random));
      }
    }
  }
}

void Problem::make_sparse(const Case& one) {
  const int32_t d_qk = record_layout(one.format).d_qk;
  make_queries(one, d_qk);
  Random random(one.seed ^ 0x73U);
  sparse_.batch = batch_;
  sparse_.s_q = s_q_;
  sparse_.num_heads = num_heads_;
  sparse_.d_qk = d_qk;
  sparse_.d_v = kValueDims;
  sparse_.q = q_.data() + first_;
  sparse_.q_batch_stride = q_strides_.batch;
  sparse_.q_token_stride = q_strides_.token;
  sparse_.q_head_stride = q_strides_.head;
  sparse_.softmax_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(d_qk)));
  sparse_.main = make_sparse_cache(one, {one.format, one.main_topk, one.main_page_size, one.spoiler != Spoiler::kNone},
                                   random, {main_.pool, main_.indices, main_.topk_length});
  if (one.extra_topk > 0) {
    sparse_.extra =
        make_sparse_cache(one, {one.extra_format.value_or(one.format), one.extra_topk, one.extra_page_size, false},
                          random, {extra_.pool, extra_.indices, extra_.topk_length});
  }
  if (one.sink == Sink::kNone) return;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (int32_t h = 0; h < num_heads_; ++h) {
    const float finite = 3 * random.normal();
    switch (one.sink) {
      case Sink::kNone:
      case Sink::kFinite:
        sink_.push_back(finite);
        break;
      case Sink::kMinusInfinity:
        sink_.push_back(-kInfinity);
        break;
      case Sink::kPlusInfinity:
        sink_.push_back(kInfinity);
        break;
      case Sink::kMixed:
        sink_.push_back(h % 3 == 0 ? finite : h % 3 == 1 ? kInfinity : -kInfinity);
        break;
    }
  }
  sparse_.attn_sink = sink_.data();
}

void Problem::make_dense(const Case& one) {
  make_queries(one, one.d_qk);
  Random random(one.seed ^ 0x64U);
  const int32_t max_pages = (one.longest + one.page_size - 1) / one.page_size + 1;
  const int64_t shift = one.unaligned ? 1 : 0;
  const int64_t token_stride = one.d_qk + (one.strided ? 8 : 0) + shift;
  const int64_t page_stride = token_stride * one.page_size + (one.strided ? 24 : 0) + 2 * shift;
  const int64_t num_pages = int64_t{std::max(batch_, 1)} * max_pages;
  kv_.assign(static_cast<size_t>(shift + num_pages * page_stride), kNanBf16);

  // A random order of the pages; entries behind the last one a request needs are garbage.
  std::vector<int32_t> order;
  order.reserve(static_cast<size_t>(num_pages));
  for (int32_t page = 0; page < num_pages; ++page) order.push_back(page);
  for (size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<size_t>(random.integer(0, static_cast<int32_t>(i) - 1))]);
  }
  block_table_.assign(static_cast<size_t>(num_pages), -7);
  for (int32_t b = 0; b < batch_; ++b) {
    const int32_t length = b == 0 || one.all_longest ? one.longest : random.integer(0, one.longest);
    seq_lens_.push_back(length);
    for (int32_t position = 0; position < length; ++position) {
      const auto entry =
          static_cast<size_t>(b) * static_cast<size_t>(max_pages) + static_cast<size_t>(position / one.page_size);
      block_table_[entry] = order[entry];
      uint16_t* token = kv_.data() + shift + order[entry] * page_stride + position % one.page_size * token_stride;
      const float size = draw_token_size(one.logits, random);
      for (int32_t i = 0; i < one.d_qk; ++i) token[i] = flashmla_to_bf16(draw_key(one.logits, size, random));
    }
  }
  dense_.batch = batch_;
  dense_.s_q = s_q_;
  dense_.num_heads = num_heads_;
  dense_.d_qk = one.d_qk;
  dense_.d_v = kValueDims;
  dense_.q = q_.data() + first_;
  dense_.q_batch_stride = q_strides_.batch;
  dense_.q_token_stride = q_strides_.token;
  dense_.q_head_stride = q_strides_.head;
  dense_.kv = kv_.data() + shift;
  dense_.num_pages = num_pages;
  dense_.kv_page_stride = page_stride;
  dense_.kv_token_stride = token_stride;
  dense_.page_size = one.page_size;
  dense_.block_table = block_table_.data();
  dense_.block_table_stride = max_pages;
  dense_.max_pages = max_pages;
  dense_.seq_lens = seq_lens_.data();
  dense_.causal = one.causal ? 1 : 0;
  dense_.softmax_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(one.d_qk)));
}

Outputs Problem::make_outputs() const {
  Outputs outputs;
  outputs.out.assign(static_cast<size_t>(elements(out_strides_, batch_)), kGuard16);
  outputs.lse.assign(static_cast<size_t>(elements(lse_strides_, batch_)), guard_float());
  return outputs;
}

template <typename Params>
Params Problem::direct(Params params, Outputs& outputs) const {
  params.out = outputs.out.data() + first_;
  params.out_batch_stride = out_strides_.batch;
  params.out_token_stride = out_strides_.token;
  params.out_head_stride = out_strides_.head;
  params.lse = outputs.lse.data() + first_;
  params.lse_batch_stride = lse_strides_.batch;
  params.lse_token_stride = lse_strides_.token;
  params.lse_head_stride = lse_strides_.head;
  return params;
}

flashmla_sparse_decode_params Problem::sparse_into(Outputs& outputs) const {
  return direct(sparse_, outputs);
}

flashmla_dense_decode_params Problem::dense_into(Outputs& outputs) const {
  return direct(dense_, outputs);
}

std::vector<Region> Problem::inputs() const {
  std::vector<Region> regions;
  auto add = [&](const auto& memory) {
    if (!memory.empty()) regions.push_back({memory.data(), memory.size() * sizeof memory[0]});
  };
  add(q_);
  for (const Cache* cache : {&main_, &extra_}) {
    add(cache->pool);
    add(cache->indices);
    add(cache->topk_length);
  }
  add(sink_);
  add(kv_);
  add(block_table_);
  add(seq_lens_);
  return regions;
}

int64_t Problem::out_at(int32_t b, int32_t t, int32_t h) const {
  return first_ + b * out_strides_.batch + t * out_strides_.token + h * out_strides_.head;
}

int64_t Problem::lse_at(int32_t b, int32_t t, int32_t h) const {
  return first_ + b * lse_strides_.batch + t * lse_strides_.token + h * lse_strides_.head;
}

bool Problem::guards_intact(const Outputs& outputs) const {
  Outputs rest = outputs;
  for (int32_t b = 0; b < batch_; ++b) {
    for (int32_t t = 0; t < s_q_; ++t) {
      for (int32_t h = 0; h < num_heads_; ++h) {
        std::fill_n(rest.out.begin() + out_at(b, t, h), kValueDims, kGuard16);
        rest.lse[static_cast<size_t>(lse_at(b, t, h))] = guard_float();
      }
    }
  }
  return std::all_of(rest.out.begin(), rest.out.end(), [](uint16_t value) { return value == kGuard16; }) &&
         std::all_of(rest.lse.begin(), rest.lse.end(), [](float value) { return bits_of(value) == kGuard32; });
}

}  // namespace flashmla::gate
