// The decoder's attention: projections into queries and records, compression, selection, and the kernel call.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "orchestrator/engine/embedded/cpu/decoder.h"
#include "orchestrator/engine/embedded/cpu/scratch.h"
#include "orchestrator/engine/embedded/cpu/simd.h"

namespace sweep::engine::embedded::cpu {

namespace {

// The `count` best of `scores` in ascending order of place; of equal scores the earlier ones. NaN, which has no order,
// counts as the worst.
void select_best(std::span<float> scores, int64_t count, float* copy, std::vector<int32_t>& places) {
  for (float& score : scores) score = std::isnan(score) ? -INFINITY : score;
  std::copy(scores.begin(), scores.end(), copy);
  std::nth_element(copy, copy + count - 1, copy + scores.size(), std::greater<>());
  const float least = copy[count - 1];
  const auto better = std::count_if(scores.begin(), scores.end(), [&](float score) { return score > least; });
  int64_t ties = count - better;
  places.clear();
  for (size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] > least || (scores[i] == least && ties-- > 0)) places.push_back(static_cast<int32_t>(i));
  }
}

}  // namespace

void CpuDecoder::select_window(int64_t row) {
  const RowLayout::Row& at = layout_.rows[static_cast<size_t>(row)];
  int32_t* const slots = window_slots_.data() + row * config_.sliding_window;
  int64_t used = 0;
  if (const Sequence* sequence = sequence_of(at)) {
    const int64_t block_size = cache_.block_size();
    for (int64_t p = std::max<int64_t>(0, at.position + 1 - config_.sliding_window); p <= at.position; ++p) {
      const int64_t block = sequence->blocks[static_cast<size_t>(p / block_size)];
      slots[used++] = static_cast<int32_t>(block * block_size + p % block_size);
    }
  }
  std::fill(slots + used, slots + config_.sliding_window, -1);
}

void CpuDecoder::project(int64_t layer, int64_t first_row, int64_t rows) {
  const LayerWeights& weights = model_.layers[static_cast<size_t>(layer)];
  const int64_t size = config_.hidden_size;
  Scratch& scratch = Scratch::of_this_thread();
  float* const normed = scratch.get(0, rows * size);
  for (int64_t r = 0; r < rows; ++r) {
    rms_norm(hidden_.data() + (first_row + r) * size, weights.input_norm.data(), size, config_.rms_norm_eps,
             normed + r * size);
  }
  project_queries(layer, first_row, rows, normed);
  if (const CompressorWeights& compressor = weights.compressor; compressor.ratio > 0) {
    const int64_t stride = compressor.projections.padded_outputs;
    compressor.projections.multiply(normed, size, rows, compressor_inputs_.data() + first_row * stride, stride);
  }
  if (!config_.has_window()) return;
  const int64_t stride = weights.kv.padded_outputs;
  float* const latents = scratch.get(1, rows * stride);
  weights.kv.multiply(normed, size, rows, latents, stride);
  RecordPool& pool = cache_.layer(layer).window;
  for (int64_t r = 0; r < rows; ++r) {
    const RowLayout::Row& row = layout_.rows[static_cast<size_t>(first_row + r)];
    const Sequence* sequence = sequence_of(row);
    if (sequence == nullptr) continue;
    float* const latent = latents + r * stride;
    rms_norm(latent, weights.kv_norm.data(), config_.head_dim, config_.rms_norm_eps, latent);
    rope_.rotate(latent + config_.nope_head_dim(), row.position);
    pool.write(sequence->blocks[static_cast<size_t>(row.position / pool.page_size)], row.position % pool.page_size,
               latent);
  }
}

void CpuDecoder::project_queries(int64_t layer, int64_t first_row, int64_t rows, const float* normed) {
  const LayerWeights& weights = model_.layers[static_cast<size_t>(layer)];
  const int64_t latent_stride = weights.q_a.padded_outputs;
  float* const latents = query_latents_.data() + first_row * latent_stride;
  weights.q_a.multiply(normed, config_.hidden_size, rows, latents, latent_stride);
  for (int64_t r = 0; r < rows; ++r) {
    float* const latent = latents + r * latent_stride;
    rms_norm(latent, weights.q_a_norm.data(), config_.q_lora_rank, config_.rms_norm_eps, latent);
  }
  const int64_t stride = weights.q_b[0].padded_outputs;
  float* const heads = Scratch::of_this_thread().get(1, rows * stride);
  for (int64_t head = 0; head < config_.num_attention_heads; ++head) {
    weights.q_b[static_cast<size_t>(head)].multiply(latents, latent_stride, rows, heads, stride);
    for (int64_t r = 0; r < rows; ++r) {
      float* const query = heads + r * stride;
      rope_.rotate(query + config_.nope_head_dim(), layout_.rows[static_cast<size_t>(first_row + r)].position);
      simd().to_bf16(query, queries_.data() + (first_row + r) * config_.query_size() + head * config_.head_dim,
                     config_.head_dim);
    }
  }
}

void CpuDecoder::compress(int64_t layer) {
  struct Group {
    size_t segment;
    int64_t number;
  };
  constexpr int64_t kGroupsAtOnce = 8;
  const int64_t ratio = config_.compress_ratios[static_cast<size_t>(layer)];
  std::vector<Group> groups;
  for (size_t s = 0; s < segments_.size(); ++s) {
    const int64_t end = segments_[s].start + static_cast<int64_t>(segments_[s].tokens.size());
    for (int64_t group = segments_[s].start / ratio; (group + 1) * ratio <= end; ++group) groups.push_back({s, group});
  }
  const auto count = static_cast<int64_t>(groups.size());
  workers_.run((count + kGroupsAtOnce - 1) / kGroupsAtOnce, [&](int64_t index) {
    for (int64_t i = index * kGroupsAtOnce; i < std::min(count, (index + 1) * kGroupsAtOnce); ++i) {
      const Group& group = groups[static_cast<size_t>(i)];
      compress_group(layer, segments_[group.segment], layout_.segment_begin[group.segment], group.number);
    }
  });
  remember_inputs(layer);
}

void CpuDecoder::compress_group(int64_t layer, const Segment& segment, int64_t first_row, int64_t group) {
  const CompressorWeights& weights = model_.layers[static_cast<size_t>(layer)].compressor;
  const int64_t ratio = weights.ratio;
  const int64_t columns = ring_columns();
  Scratch& scratch = Scratch::of_this_thread();
  float* const shares = scratch.get(0, ratio);
  float* const sum = scratch.get(1, columns);
  const auto inputs_of = [&](int64_t position) -> const float* {
    if (position >= segment.start) {
      const int64_t row = first_row + position - segment.start;
      return compressor_inputs_.data() + row * weights.projections.padded_outputs;
    }
    return ring_of(segment, layer).data() + position % ring_rows(layer) * columns;
  };
  float largest = -INFINITY;
  for (int64_t i = 0; i < ratio; ++i) {
    shares[i] = inputs_of(group * ratio + i)[columns - 1] + weights.position_bias[static_cast<size_t>(i)];
    largest = std::max(largest, shares[i]);
  }
  float total = 0;
  for (int64_t i = 0; i < ratio; ++i) total += shares[i] = std::exp(shares[i] - largest);
  std::fill_n(sum, columns, 0.0F);
  for (int64_t i = 0; i < ratio; ++i) {
    const float* const inputs = inputs_of(group * ratio + i);
    const float share = shares[i] / total;
    for (int64_t c = 0; c < columns - 1; ++c) sum[c] += share * inputs[c];
  }
  rms_norm(sum, weights.norm.data(), config_.head_dim, config_.rms_norm_eps, sum);
  rope_.rotate(sum + config_.nope_head_dim(), group * ratio);
  LayerCache& cache = cache_.layer(layer);
  const int64_t page = segment.sequence->blocks[static_cast<size_t>(group / cache.compressed.page_size)];
  const int64_t place = group % cache.compressed.page_size;
  cache.compressed.write(page, place, sum);
  float* const keys = cache.index_keys.page(page);
  for (int64_t d = 0; d < config_.index_head_dim; ++d)
    keys[d * cache.index_keys.stride + place] = sum[config_.head_dim + d];
}

void CpuDecoder::remember_inputs(int64_t layer) {
  const int64_t stride = model_.layers[static_cast<size_t>(layer)].compressor.projections.padded_outputs;
  for (size_t s = 0; s < segments_.size(); ++s) {
    const auto tokens = static_cast<int64_t>(segments_[s].tokens.size());
    auto& ring = ring_of(segments_[s], layer);
    for (int64_t i = std::max<int64_t>(0, tokens - ring_rows(layer)); i < tokens; ++i) {
      std::copy_n(compressor_inputs_.data() + (layout_.segment_begin[s] + i) * stride, ring_columns(),
                  ring.data() + (segments_[s].start + i) % ring_rows(layer) * ring_columns());
    }
  }
}

// Those that end before the query; without a window also one that ends with it.
int64_t CpuDecoder::visible_groups(const RowLayout::Row& row, int64_t ratio) const {
  if (row.segment < 0) return 0;
  return (row.position + (config_.has_window() ? 0 : 1)) / ratio;
}

void CpuDecoder::select_compressed(int64_t layer, int64_t row) {
  const RowLayout::Row& at = layout_.rows[static_cast<size_t>(row)];
  const Sequence* sequence = sequence_of(at);
  const CompressorWeights& weights = model_.layers[static_cast<size_t>(layer)].compressor;
  const LayerCache& cache = cache_.layer(layer);
  const int64_t page_size = cache.compressed.page_size;
  int32_t* const slots = compressed_slots_.data() + row * config_.index_topk;
  thread_local std::vector<int32_t> places;
  places.clear();
  const int64_t visible = visible_groups(at, weights.ratio);
  if (visible <= config_.index_topk) {
    places.resize(static_cast<size_t>(visible));
    std::iota(places.begin(), places.end(), 0);
  } else {
    Scratch& scratch = Scratch::of_this_thread();
    const PackedMatrix& index_q = weights.index_q;
    float* const queries = scratch.get(0, index_q.padded_outputs);
    float* const scores = scratch.get(1, visible + page_size + kScoreColumns);
    float* const copy = scratch.get(2, visible);
    const int64_t latent_stride = model_.layers[static_cast<size_t>(layer)].q_a.padded_outputs;
    index_q.multiply(query_latents_.data() + row * latent_stride, latent_stride, 1, queries, index_q.padded_outputs);
    const float* const head_weights =
        compressor_inputs_.data() + row * weights.projections.padded_outputs + ring_columns();
    for (int64_t first = 0; first < visible; first += page_size) {
      simd().index_scores({.queries = queries,
                           .weights = head_weights,
                           .heads = config_.index_n_heads,
                           .dim = config_.index_head_dim,
                           .keys = cache.index_keys.page(sequence->blocks[static_cast<size_t>(first / page_size)]),
                           .keys_stride = cache.index_keys.stride,
                           .columns = std::min(page_size, visible - first),
                           .scores = scores + first});
    }
    select_best({scores, static_cast<size_t>(visible)}, config_.index_topk, copy, places);
  }
  size_t used = 0;
  for (const int64_t place : places) {
    const int64_t page = sequence->blocks[static_cast<size_t>(place / page_size)];
    slots[used++] = static_cast<int32_t>(page * page_size + place % page_size);
  }
  std::fill(slots + used, slots + config_.index_topk, -1);
}

diag::Result<diag::Done> CpuDecoder::attend(int64_t layer) {
  const LayerWeights& weights = model_.layers[static_cast<size_t>(layer)];
  LayerCache& cache = cache_.layer(layer);
  flashmla_sparse_decode_params params = {};
  params.s_q = query_tokens_;
  params.batch = static_cast<int32_t>(layout_.rows.size()) / query_tokens_;
  params.num_heads = static_cast<int32_t>(config_.num_attention_heads);
  params.d_qk = static_cast<int32_t>(config_.head_dim);
  params.d_v = static_cast<int32_t>(kValueDim);
  params.q = queries_.data();
  params.q_head_stride = config_.head_dim;
  params.q_token_stride = config_.query_size();
  params.q_batch_stride = config_.query_size() * query_tokens_;
  params.out_head_stride = kValueDim;
  params.out_token_stride = config_.output_size();
  params.out_batch_stride = config_.output_size() * query_tokens_;
  const auto select = [&](flashmla_sparse_kv& kv, const std::vector<int32_t>& slots, int64_t topk) {
    kv.indices = slots.data();
    kv.topk = static_cast<int32_t>(topk);
    kv.indices_query_stride = topk;
    kv.indices_batch_stride = topk * query_tokens_;
  };
  if (config_.has_window()) {
    params.main = cache.window.view();
    select(params.main, window_slots_, config_.sliding_window);
  }
  if (weights.compressor.ratio > 0) {
    flashmla_sparse_kv& kv = config_.has_window() ? params.extra : params.main;
    kv = cache.compressed.view();
    select(kv, compressed_slots_, config_.index_topk);
  }
  params.attn_sink = weights.attn_sink.data();
  params.softmax_scale = softmax_scale_;
  params.out = outputs_.data();
  params.lse = lse_.data();
  params.lse_head_stride = 1;
  params.lse_token_stride = config_.num_attention_heads;
  params.lse_batch_stride = config_.num_attention_heads * query_tokens_;
  return kernels_.sparse_decode(params);
}

}  // namespace sweep::engine::embedded::cpu
