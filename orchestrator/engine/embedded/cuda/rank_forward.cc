// The launches of a forward pass.
#include <algorithm>
#include <cmath>

#include "orchestrator/engine/embedded/cuda/rank.h"
#include "orchestrator/engine/embedded/cuda/skinny.h"

namespace sweep::engine::embedded::cuda {

void Rank::enqueue(const RowTable& table, const Shape& shape) {
  staging_.copy(stream_.get());
  embed({.table = table,
         .embedding = weights_.embedding.get(),
         .size = static_cast<int32_t>(config_.hidden_size),
         .hidden = hidden_.get()},
        stream_.get());
  if (config_.has_window()) {
    select_window({.table = table,
                   .window = static_cast<int32_t>(config_.sliding_window),
                   .slots = window_slots_.get(),
                   .lengths = window_lengths_.get()},
                  stream_.get());
  }
  if (shape.profiled) record(part_events_[0]);
  for (size_t layer = 0; layer < weights_.layers.size(); ++layer) enqueue_layer(table, shape, layer);
  if (shape.profiled) record(part_events_.back());
  finish_hidden(table);
  if (shape.with_logits) enqueue_logits(nullptr, table.rows);
}

void Rank::enqueue_layer(const RowTable& table, const Shape& shape, size_t layer) {
  const RankLayer& weights = weights_.layers[layer];
  LayerCache& cache = caches_[layer];
  // What the layer before left to be added comes with this norm.
  enqueue_norm(table, weights.input_norm.get(), layer > 0 ? Addend::kMlp : Addend::kNone, layer);
  const auto ended = [&](StepPart part) {
    if (shape.profiled) record(part_events_[layer * kStepParts + static_cast<size_t>(part) + 1]);
  };
  enqueue_projections(table, weights, cache);
  ended(StepPart::kProjections);
  if (weights.ratio > 0) enqueue_selection(table, shape, weights, cache);
  ended(StepPart::kSelection);
  attention_.decode(attention_call(table, layer), stream_.get());
  ended(StepPart::kAttention);
  enqueue_output(table, weights);
  enqueue_norm(table, weights.post_norm.get(), Addend::kAttention, layer);
  ended(StepPart::kOutput);
  enqueue_mlp(table, weights);
  ended(StepPart::kMlp);
}

void Rank::record(const Event& event) {
  check(cudaEventRecordWithFlags(event.get(), stream_.get(), cudaEventRecordExternal), "cudaEventRecordWithFlags");
}

// The hidden state after `layer` layers is complete once the last MLP's output is added: there the drafter's features
// are taken.
void Rank::enqueue_norm(const RowTable& table, const float* weight, Addend addend, size_t layer) {
  AddNormArguments arguments = {.rows = table.rows,
                                .size = static_cast<int32_t>(config_.hidden_size),
                                .hidden = hidden_.get(),
                                .addend = addend == Addend::kNone ? nullptr : partial_.get(),
                                .weight = weight,
                                .epsilon = static_cast<float>(config_.rms_norm_eps),
                                .normed = normed_.get(),
                                .features = nullptr,
                                .features_stride = feature_size(),
                                .gather = nullptr};
  if (addend == Addend::kMlp) {
    const auto& ids = config_.dspark_target_layer_ids;
    const auto at = std::find(ids.begin(), ids.end(), static_cast<int64_t>(layer) - 1);
    if (at != ids.end()) arguments.features = features_.get() + (at - ids.begin()) * config_.hidden_size;
  }
  add_norm(arguments, stream_.get());
}

// Adds the last MLP's output. The norm that comes with it is used by nobody.
void Rank::finish_hidden(const RowTable& table) {
  enqueue_norm(table, weights_.layers.back().post_norm.get(), Addend::kMlp, weights_.layers.size());
}

void Rank::enqueue_projections(const RowTable& table, const RankLayer& weights, LayerCache& cache) {
  gemm_.multiply({.weights = weights.projections.get(),
                  .outputs = weights.columns.stride,
                  .inputs = config_.hidden_size,
                  .from = normed_.get(),
                  .rows = table.rows,
                  .to = projections_.get()});
  const auto epsilon = static_cast<float>(config_.rms_norm_eps);
  make_latents({.table = table,
                .projections = projections_.get(),
                .columns = weights.columns,
                .query_rank = static_cast<int32_t>(config_.q_lora_rank),
                .query_norm = weights.q_a_norm.get(),
                .query_latents = query_latents_.get(),
                .kv_norm = weights.kv_norm.get(),
                .window = records(cache.window, 1),
                .rope = rope_,
                .epsilon = epsilon},
               stream_.get());
  const int64_t index_size = weights.ratio > 0 ? config_.index_n_heads * config_.index_head_dim : 0;
  const Product product = {.weights = weights.queries.get(),
                           .outputs = shard_.heads * config_.head_dim + index_size,
                           .inputs = config_.q_lora_rank,
                           .from = query_latents_.get(),
                           .rows = table.rows,
                           .to = raw_queries_.get()};
  const QueryArguments queries = {.table = table,
                                  .raw = raw_queries_.get(),
                                  .heads = static_cast<int32_t>(shard_.heads),
                                  .head_dim = static_cast<int32_t>(config_.head_dim),
                                  .index_size = static_cast<int32_t>(index_size),
                                  .rope = rope_,
                                  .queries = queries_.get(),
                                  .index_queries = index_queries_.get()};
  if (is_skinny(product)) return multiply_queries(product, queries, stream_.get());
  gemm_.multiply(product);
  make_queries(queries, stream_.get());
}

void Rank::enqueue_selection(const RowTable& table, const Shape& shape, const RankLayer& weights, LayerCache& cache) {
  const auto ratio = static_cast<int32_t>(weights.ratio);
  const auto page_size = static_cast<int32_t>(config_.kv_block_size / weights.ratio);
  const bool sees_own = !config_.has_window();
  compress({.table = table,
            .projections = projections_.get(),
            .columns = weights.columns,
            .ratio = ratio,
            .index_dim = static_cast<int32_t>(config_.index_head_dim),
            .position_bias = weights.position_bias.get(),
            .norm = weights.compressor_norm.get(),
            .epsilon = static_cast<float>(config_.rms_norm_eps),
            .rope = rope_,
            .compressed = records(cache.compressed, weights.ratio),
            .index_keys = cache.index_keys.get(),
            .ring = cache.ring.get(),
            .ring_rows = ratio + FLASHMLA_MAX_QUERY_TOKENS,
            .most_tokens = shape.most_tokens},
           stream_.get());
  const int64_t visible = most_visible(weights.ratio, shape.most_position);
  const int64_t stride = most_visible(weights.ratio, positions_);
  if (visible > config_.index_topk) {
    score_groups({.table = table,
                  .ratio = ratio,
                  .sees_own = sees_own,
                  .heads = static_cast<int32_t>(config_.index_n_heads),
                  .dim = static_cast<int32_t>(config_.index_head_dim),
                  .page_size = page_size,
                  .queries = index_queries_.get(),
                  .weights = projections_.get() + weights.columns.index_weights,
                  .weights_stride = weights.columns.stride,
                  .keys = cache.index_keys.get(),
                  .scores = scores_.get(),
                  .scores_stride = stride,
                  .most_groups = static_cast<int32_t>(visible)},
                 stream_.get());
  }
  select_groups({.table = table,
                 .ratio = ratio,
                 .sees_own = sees_own,
                 .topk = static_cast<int32_t>(config_.index_topk),
                 .page_size = page_size,
                 .scores = scores_.get(),
                 .scores_stride = stride,
                 .most_groups = static_cast<int32_t>(visible),
                 .slots = group_slots_.get(),
                 .lengths = group_lengths_.get()},
                stream_.get());
}

Records Rank::records(const DeviceArray<uint8_t>& pool, int64_t ratio) const {
  const int64_t tokens = config_.kv_block_size / ratio;
  return {.pool = pool.get(),
          .page_stride = layout_.page_stride_bytes(tokens),
          .page_size = static_cast<int32_t>(tokens),
          .format = layout_.format,
          .head_dim = static_cast<int32_t>(config_.head_dim)};
}

flashmla_sparse_decode_params Rank::attention_call(const RowTable& table, size_t layer) const {
  const RankLayer& weights = weights_.layers[layer];
  const int64_t query_tokens = table.query_tokens;
  flashmla_sparse_decode_params params = {};
  params.s_q = table.query_tokens;
  params.batch = table.rows / table.query_tokens;
  params.num_heads = static_cast<int32_t>(shard_.heads);
  params.d_qk = static_cast<int32_t>(config_.head_dim);
  params.d_v = static_cast<int32_t>(kValueDim);
  params.q = queries_.get();
  params.q_head_stride = config_.head_dim;
  params.q_token_stride = shard_.heads * config_.head_dim;
  params.q_batch_stride = params.q_token_stride * query_tokens;
  params.out = outputs_.get();
  params.out_head_stride = kValueDim;
  params.out_token_stride = shard_.heads * kValueDim;
  params.out_batch_stride = params.out_token_stride * query_tokens;
  params.lse = lse_.get();
  params.lse_head_stride = 1;
  params.lse_token_stride = shard_.heads;
  params.lse_batch_stride = shard_.heads * query_tokens;
  struct Selection {
    const int32_t* slots;
    const int32_t* lengths;
    int64_t topk;
  };
  const auto use = [&](flashmla_sparse_kv& kv, const Records& pool, const Selection& selection) {
    kv.pool = pool.pool;
    kv.num_pages = num_blocks_;
    kv.page_stride_bytes = pool.page_stride;
    kv.page_size = pool.page_size;
    kv.format = pool.format;
    kv.indices = selection.slots;
    kv.topk = static_cast<int32_t>(selection.topk);
    kv.indices_query_stride = selection.topk;
    kv.indices_batch_stride = selection.topk * query_tokens;
    kv.topk_length = selection.lengths;
  };
  if (config_.has_window()) {
    use(params.main, records(caches_[layer].window, 1),
        {window_slots_.get(), window_lengths_.get(), config_.sliding_window});
  }
  if (weights.ratio > 0) {
    use(config_.has_window() ? params.extra : params.main, records(caches_[layer].compressed, weights.ratio),
        {group_slots_.get(), group_lengths_.get(), config_.index_topk});
  }
  params.attn_sink = weights.attn_sink.get();
  params.softmax_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim)));
  return params;
}

void Rank::enqueue_output(const RowTable& table, const RankLayer& weights) {
  const Product inner = {.weights = weights.o_a.get(),
                         .outputs = config_.o_lora_rank,
                         .inputs = shard_.group_columns,
                         .groups = shard_.groups,
                         .from = outputs_.get(),
                         .rows = table.rows,
                         .to_bf16 = group_outputs_.get()};
  const TurnBackArguments turn = {
      .table = table, .outputs = outputs_.get(), .heads = static_cast<int32_t>(shard_.heads), .rope = rope_};
  if (config_.rotates_values() && is_skinny(inner)) {
    multiply_turned(inner, turn, stream_.get());
  } else {
    if (config_.rotates_values()) turn_back(turn, stream_.get());
    gemm_.multiply(inner);
  }
  gemm_.multiply({.weights = weights.o_b.get(),
                  .outputs = config_.hidden_size,
                  .inputs = shard_.groups * config_.o_lora_rank,
                  .from = group_outputs_.get(),
                  .rows = table.rows,
                  .to = partial_.get()});
  sum_over_ranks(table.rows);
}

void Rank::enqueue_mlp(const RowTable& table, const RankLayer& weights) {
  enqueue_mlp_product({.weights = &weights.mlp,
                       .rows = table.rows,
                       .from = normed_.get(),
                       .gate_up = gate_up_.get(),
                       .activated = activated_.get(),
                       .to = partial_.get()});
  sum_over_ranks(table.rows);
}

void Rank::enqueue_mlp_product(const MlpPass& pass) {
  const RankMlp& weights = *pass.weights;
  const Product product = {.weights = weights.gate_up.get(),
                           .outputs = 2 * weights.size,
                           .inputs = config_.hidden_size,
                           .from = pass.from,
                           .rows = pass.rows,
                           .to = pass.gate_up};
  const SiluArguments silu = {.gate_up = pass.gate_up,
                              .rows = static_cast<int32_t>(pass.rows),
                              .size = static_cast<int32_t>(weights.size),
                              .unit = static_cast<int32_t>(weights.unit),
                              .to = pass.activated};
  if (is_skinny(product) && weights.unit == kGateUnit) {
    multiply_gate_up(product, silu, stream_.get());
  } else {
    gemm_.multiply(product);
    silu_multiply(silu, stream_.get());
  }
  gemm_.multiply({.weights = weights.down.get(),
                  .outputs = config_.hidden_size,
                  .inputs = weights.size,
                  .from = pass.activated,
                  .rows = pass.rows,
                  .to = pass.to});
}

void Rank::enqueue_logits(const int32_t* gather, int64_t rows) {
  add_norm({.rows = static_cast<int32_t>(rows),
            .size = static_cast<int32_t>(config_.hidden_size),
            .hidden = hidden_.get(),
            .addend = nullptr,
            .weight = weights_.norm.get(),
            .epsilon = static_cast<float>(config_.rms_norm_eps),
            .normed = normed_.get(),
            .features = nullptr,
            .features_stride = 0,
            .gather = gather},
           stream_.get());
  gemm_.multiply({.weights = weights_.lm_head.get(),
                  .outputs = config_.vocab_size,
                  .inputs = config_.hidden_size,
                  .from = normed_.get(),
                  .rows = rows,
                  .to = logits_.get()});
  check(
      cudaMemcpyAsync(host_logits_.get(), logits_.get(), static_cast<size_t>(rows * config_.vocab_size) * sizeof(float),
                      cudaMemcpyDeviceToHost, stream_.get()),
      "cudaMemcpyAsync");
}

}  // namespace sweep::engine::embedded::cuda
