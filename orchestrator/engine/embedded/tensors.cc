#include "orchestrator/engine/embedded/tensors.h"

#include <fmt/format.h>

namespace sweep::engine::embedded {

namespace {

void add_layer(const ModelConfig& config, int64_t layer, std::vector<TensorSpec>& tensors) {
  const int64_t hidden = config.hidden_size;
  const auto add = [&](const char* suffix, Dtype dtype, std::vector<int64_t> shape) {
    tensors.push_back({layer_tensor(layer, suffix), dtype, std::move(shape)});
  };
  add("input_layernorm.weight", Dtype::kF32, {hidden});
  add("self_attn.q_a_proj.weight", Dtype::kBf16, {config.q_lora_rank, hidden});
  add("self_attn.q_a_layernorm.weight", Dtype::kF32, {config.q_lora_rank});
  add("self_attn.q_b_proj.weight", Dtype::kBf16, {config.query_size(), config.q_lora_rank});
  if (config.has_window()) {
    add("self_attn.kv_proj.weight", Dtype::kBf16, {config.head_dim, hidden});
    add("self_attn.kv_layernorm.weight", Dtype::kF32, {config.head_dim});
  }
  add("self_attn.attn_sink", Dtype::kF32, {config.num_attention_heads});
  add("self_attn.o_a_proj.weight", Dtype::kBf16, {config.o_rank_total(), config.output_size() / config.o_groups});
  add("self_attn.o_b_proj.weight", Dtype::kBf16, {hidden, config.o_rank_total()});
  if (const int64_t ratio = config.compress_ratios[static_cast<size_t>(layer)]; ratio > 0) {
    add("self_attn.compressor.kv_proj.weight", Dtype::kBf16, {config.head_dim, hidden});
    add("self_attn.compressor.gate_proj.weight", Dtype::kBf16, {1, hidden});
    add("self_attn.compressor.position_bias", Dtype::kF32, {ratio});
    add("self_attn.compressor.norm.weight", Dtype::kF32, {config.head_dim});
    add("self_attn.indexer.q_proj.weight", Dtype::kBf16,
        {config.index_n_heads * config.index_head_dim, config.q_lora_rank});
    add("self_attn.indexer.k_proj.weight", Dtype::kBf16, {config.index_head_dim, hidden});
    add("self_attn.indexer.weights_proj.weight", Dtype::kBf16, {config.index_n_heads, hidden});
  }
  add("post_attention_layernorm.weight", Dtype::kF32, {hidden});
  add("mlp.gate_proj.weight", Dtype::kBf16, {config.intermediate_size, hidden});
  add("mlp.up_proj.weight", Dtype::kBf16, {config.intermediate_size, hidden});
  add("mlp.down_proj.weight", Dtype::kBf16, {hidden, config.intermediate_size});
}

void add_dspark(const ModelConfig& config, std::vector<TensorSpec>& tensors) {
  const int64_t hidden = config.hidden_size;
  const int64_t intermediate = config.dspark_intermediate_size;
  const auto features = static_cast<int64_t>(config.dspark_target_layer_ids.size()) * hidden;
  tensors.push_back({"dspark.fc.weight", Dtype::kBf16, {hidden, features}});
  tensors.push_back({"dspark.position_embeddings.weight", Dtype::kBf16, {config.dspark_block_size, hidden}});
  tensors.push_back({"dspark.input_layernorm.weight", Dtype::kF32, {hidden}});
  tensors.push_back({"dspark.mlp.gate_proj.weight", Dtype::kBf16, {intermediate, hidden}});
  tensors.push_back({"dspark.mlp.up_proj.weight", Dtype::kBf16, {intermediate, hidden}});
  tensors.push_back({"dspark.mlp.down_proj.weight", Dtype::kBf16, {hidden, intermediate}});
  tensors.push_back({"dspark.norm.weight", Dtype::kF32, {hidden}});
  tensors.push_back(
      {"dspark.markov_head.markov_w1.weight", Dtype::kBf16, {config.vocab_size, config.dspark_markov_rank}});
  tensors.push_back(
      {"dspark.markov_head.markov_w2.weight", Dtype::kBf16, {config.vocab_size, config.dspark_markov_rank}});
}

}  // namespace

std::string layer_tensor(int64_t layer, const std::string& suffix) {
  return fmt::format("model.layers.{}.{}", layer, suffix);
}

std::vector<TensorSpec> model_tensors(const ModelConfig& config) {
  std::vector<TensorSpec> tensors;
  tensors.push_back({"model.embed_tokens.weight", Dtype::kBf16, {config.vocab_size, config.hidden_size}});
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) add_layer(config, layer, tensors);
  tensors.push_back({"model.norm.weight", Dtype::kF32, {config.hidden_size}});
  tensors.push_back({"lm_head.weight", Dtype::kBf16, {config.vocab_size, config.hidden_size}});
  if (config.dspark_block_size > 0) add_dspark(config, tensors);
  return tensors;
}

}  // namespace sweep::engine::embedded
