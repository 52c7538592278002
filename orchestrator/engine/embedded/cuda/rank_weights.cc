#include "orchestrator/engine/embedded/cuda/rank_weights.h"

#include <string>

#include "orchestrator/engine/embedded/cuda/skinny.h"

namespace sweep::engine::embedded::cuda {

namespace {

// A part of a matrix [.., inputs].
struct Slice {
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t first_column = 0;
  int64_t columns = 0;
  int64_t inputs = 0;
};

Slice whole(int64_t rows, int64_t inputs) {
  return {.rows = rows, .columns = inputs, .inputs = inputs};
}

class Loader {
 public:
  Loader(const ModelConfig& config, const TensorSource& tensors, const Shard& shard)
      : config_(config), tensors_(tensors), shard_(shard) {}

  DeviceArray<float> vector(const std::string& name, int64_t first, int64_t count) const {
    DeviceArray<float> values(count);
    const auto* const data = reinterpret_cast<const float*>(tensors_.tensor(name).data);
    check(cudaMemcpy(values.get(), data + first, values.bytes(), cudaMemcpyHostToDevice), "cudaMemcpy");
    return values;
  }
  DeviceArray<float> vector(const std::string& name, int64_t count) const { return vector(name, 0, count); }

  void copy(const std::string& name, const Slice& slice, Bf16* to) const {
    const auto* const data = reinterpret_cast<const Bf16*>(tensors_.tensor(name).data);
    check(cudaMemcpy2D(to, static_cast<size_t>(slice.columns) * sizeof(Bf16),
                       data + slice.first_row * slice.inputs + slice.first_column,
                       static_cast<size_t>(slice.inputs) * sizeof(Bf16),
                       static_cast<size_t>(slice.columns) * sizeof(Bf16), static_cast<size_t>(slice.rows),
                       cudaMemcpyHostToDevice),
          "cudaMemcpy2D");
  }

  DeviceArray<Bf16> matrix(const std::string& name, const Slice& slice) const {
    DeviceArray<Bf16> values(slice.rows * slice.columns);
    copy(name, slice, values.get());
    return values;
  }

  RankMlp mlp(const std::string& prefix, const Slice& rows) const {
    RankMlp mlp;
    mlp.size = rows.rows;
    mlp.unit = rows.rows % kGateUnit == 0 ? kGateUnit : rows.rows;
    mlp.gate_up = DeviceArray<Bf16>(2 * rows.rows * rows.inputs);
    // A unit is one "row" here, and every second one is free for the other matrix.
    const int64_t unit = mlp.unit * rows.inputs;
    const auto scatter = [&](const char* name, Bf16* to) {
      const auto* const data = reinterpret_cast<const Bf16*>(tensors_.tensor(prefix + name).data);
      const auto bytes = static_cast<size_t>(unit) * sizeof(Bf16);
      check(cudaMemcpy2D(to, 2 * bytes, data + rows.first_row * rows.inputs, bytes, bytes,
                         static_cast<size_t>(rows.rows / mlp.unit), cudaMemcpyHostToDevice),
            "cudaMemcpy2D");
    };
    scatter("gate_proj.weight", mlp.gate_up.get());
    scatter("up_proj.weight", mlp.gate_up.get() + unit);
    return mlp;
  }

  void projections(const std::string& prefix, RankLayer& layer) const {
    constexpr int64_t kAlignment = 8;  // of a row of the result, so that tensor cores can write it
    const bool compresses = layer.ratio > 0;
    struct Part {
      const char* name;
      int64_t rows;
    };
    const Part parts[] = {{"q_a_proj.weight", config_.q_lora_rank},
                          {"kv_proj.weight", config_.has_window() ? config_.head_dim : 0},
                          {"compressor.kv_proj.weight", compresses ? config_.head_dim : 0},
                          {"indexer.k_proj.weight", compresses ? config_.index_head_dim : 0},
                          {"compressor.gate_proj.weight", compresses ? 1 : 0},
                          {"indexer.weights_proj.weight", compresses ? config_.index_n_heads : 0}};
    int64_t begins[7] = {};
    for (int i = 0; i < 6; ++i) begins[i + 1] = begins[i] + parts[i].rows;
    const int64_t stride = (begins[6] + kAlignment - 1) / kAlignment * kAlignment;
    layer.projections = DeviceArray<Bf16>(stride * config_.hidden_size);
    for (int i = 0; i < 6; ++i) {
      if (parts[i].rows == 0) continue;
      copy(prefix + parts[i].name, whole(parts[i].rows, config_.hidden_size),
           layer.projections.get() + begins[i] * config_.hidden_size);
    }
    layer.columns = {.stride = static_cast<int32_t>(stride),
                     .query = 0,
                     .kv = config_.has_window() ? static_cast<int32_t>(begins[1]) : -1,
                     .compressor = compresses ? static_cast<int32_t>(begins[2]) : -1,
                     .index_weights = static_cast<int32_t>(begins[5])};
  }

  void queries(const std::string& prefix, RankLayer& layer) const {
    const int64_t rank = config_.q_lora_rank;
    const int64_t own = shard_.heads * config_.head_dim;
    const int64_t index = layer.ratio > 0 ? config_.index_n_heads * config_.index_head_dim : 0;
    layer.queries = DeviceArray<Bf16>((own + index) * rank);
    copy(prefix + "q_b_proj.weight",
         {.first_row = shard_.first_head * config_.head_dim, .rows = own, .columns = rank, .inputs = rank},
         layer.queries.get());
    if (index > 0) copy(prefix + "indexer.q_proj.weight", whole(index, rank), layer.queries.get() + own * rank);
  }

  RankLayer layer(int64_t number) const {
    const std::string prefix = "model.layers." + std::to_string(number) + ".";
    const std::string attention = prefix + "self_attn.";
    const int64_t hidden = config_.hidden_size;
    const int64_t group_inputs = config_.output_size() / config_.o_groups;
    RankLayer layer;
    layer.ratio = config_.compress_ratios[static_cast<size_t>(number)];
    layer.input_norm = vector(prefix + "input_layernorm.weight", hidden);
    projections(attention, layer);
    layer.q_a_norm = vector(attention + "q_a_layernorm.weight", config_.q_lora_rank);
    queries(attention, layer);
    if (config_.has_window()) layer.kv_norm = vector(attention + "kv_layernorm.weight", config_.head_dim);
    layer.attn_sink = vector(attention + "attn_sink", shard_.first_head, shard_.heads);
    layer.o_a = matrix(attention + "o_a_proj.weight", {.first_row = shard_.first_group * config_.o_lora_rank,
                                                       .rows = shard_.groups * config_.o_lora_rank,
                                                       .first_column = shard_.first_group_column,
                                                       .columns = shard_.group_columns,
                                                       .inputs = group_inputs});
    layer.o_b = matrix(attention + "o_b_proj.weight", {.rows = hidden,
                                                       .first_column = shard_.first_group * config_.o_lora_rank,
                                                       .columns = shard_.groups * config_.o_lora_rank,
                                                       .inputs = config_.o_rank_total()});
    if (layer.ratio > 0) {
      layer.position_bias = vector(attention + "compressor.position_bias", layer.ratio);
      layer.compressor_norm = vector(attention + "compressor.norm.weight", config_.head_dim);
    }
    layer.post_norm = vector(prefix + "post_attention_layernorm.weight", hidden);
    layer.mlp =
        mlp(prefix + "mlp.",
            {.first_row = shard_.first_intermediate, .rows = shard_.intermediate, .columns = hidden, .inputs = hidden});
    layer.mlp.down = matrix(prefix + "mlp.down_proj.weight", {.rows = hidden,
                                                              .first_column = shard_.first_intermediate,
                                                              .columns = shard_.intermediate,
                                                              .inputs = config_.intermediate_size});
    return layer;
  }

  RankDraft draft() const {
    RankDraft draft;
    if (config_.dspark_block_size == 0) return draft;
    const int64_t hidden = config_.hidden_size;
    const auto features = static_cast<int64_t>(config_.dspark_target_layer_ids.size()) * hidden;
    draft.fc = matrix("dspark.fc.weight", whole(hidden, features));
    draft.position_embeddings = matrix("dspark.position_embeddings.weight", whole(config_.dspark_block_size, hidden));
    draft.input_norm = vector("dspark.input_layernorm.weight", hidden);
    draft.mlp = mlp("dspark.mlp.", whole(config_.dspark_intermediate_size, hidden));
    draft.mlp.down = matrix("dspark.mlp.down_proj.weight", whole(hidden, config_.dspark_intermediate_size));
    draft.norm = vector("dspark.norm.weight", hidden);
    draft.markov_in =
        matrix("dspark.markov_head.markov_w1.weight", whole(config_.vocab_size, config_.dspark_markov_rank));
    draft.markov_out =
        matrix("dspark.markov_head.markov_w2.weight", whole(config_.vocab_size, config_.dspark_markov_rank));
    return draft;
  }

 private:
  const ModelConfig& config_;
  const TensorSource& tensors_;
  const Shard& shard_;
};

}  // namespace

RankWeights load_weights(const ModelConfig& config, const TensorSource& tensors, const Shard& shard, bool is_first) {
  const Loader loader(config, tensors, shard);
  RankWeights weights;
  weights.embedding = loader.matrix("model.embed_tokens.weight", whole(config.vocab_size, config.hidden_size));
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) weights.layers.push_back(loader.layer(layer));
  if (is_first) {
    weights.norm = loader.vector("model.norm.weight", config.hidden_size);
    weights.lm_head = loader.matrix("lm_head.weight", whole(config.vocab_size, config.hidden_size));
    weights.draft = loader.draft();
  }
  return weights;
}

}  // namespace sweep::engine::embedded::cuda
