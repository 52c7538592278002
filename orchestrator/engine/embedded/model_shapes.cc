#include "orchestrator/engine/embedded/model_shapes.h"

namespace sweep::engine::embedded {

namespace {

// Dimensions: the models' config.json. What one of eight ranks has: an eighth of the heads and output groups; the MLP
// stands for the experts that a token visits (the shared one included), an eighth of their inner dimension. A layer of
// each kind of attention that the model has, more of those that it has most of.
ModelConfig rank_of_eight() {
  ModelConfig config;
  config.vocab_size = 4096;
  config.dspark_markov_rank = 256;
  config.o_groups = 1;
  config.o_lora_rank = 1024;
  config.num_attention_heads = 8;
  config.index_head_dim = 128;
  config.kv_block_size = 256;
  return config;
}

ModelConfig v4_flash() {
  ModelConfig config = rank_of_eight();
  config.hidden_size = 4096;
  config.num_hidden_layers = 4;
  config.compress_ratios = {0, 4, 128, 4};
  config.q_lora_rank = 1024;
  config.index_n_heads = 64;
  config.index_topk = 512;
  config.intermediate_size = 7 * 2048 / 8;
  config.dspark_intermediate_size = 2048;
  config.dspark_target_layer_ids = {1, 2, 3};
  return config;
}

// The share of two ranks: to be run by two GPUs, or by one that then has twice the heads.
ModelConfig v4_flash_two_ranks() {
  ModelConfig config = v4_flash();
  config.num_attention_heads *= 2;
  config.o_groups *= 2;
  config.intermediate_size *= 2;
  return config;
}

ModelConfig v4_pro() {
  ModelConfig config = rank_of_eight();
  config.hidden_size = 7168;
  config.num_hidden_layers = 4;
  config.compress_ratios = {128, 4, 128, 4};
  config.num_attention_heads = 16;
  config.o_groups = 2;
  config.q_lora_rank = 1536;
  config.index_n_heads = 64;
  config.index_topk = 1024;
  config.intermediate_size = 7 * 3072 / 8;
  config.dspark_intermediate_size = 3072;
  config.dspark_target_layer_ids = {2, 3};
  return config;
}

ModelConfig v41_flash() {
  ModelConfig config = rank_of_eight();
  config.kv_layout = "v41_528";
  config.hidden_size = 5120;
  config.num_hidden_layers = 4;
  config.compress_ratios = {0, 2, 1, 1};
  config.q_lora_rank = 1280;
  config.index_n_heads = 32;
  config.index_topk = 512;
  config.intermediate_size = 7 * 2304 / 8;
  config.dspark_intermediate_size = 2304;
  config.dspark_target_layer_ids = {1, 2, 3};
  return config;
}

// The up-projection of each head's values, 512 to 256, is its group's first output factor.
ModelConfig glm_5_2() {
  ModelConfig config = rank_of_eight();
  config.kv_layout = "v32_656";
  config.head_dim = 576;
  config.sliding_window = 0;
  config.hidden_size = 6144;
  config.num_hidden_layers = 4;
  config.compress_ratios = {1, 1, 1, 1};
  config.o_groups = 8;
  config.o_lora_rank = 256;
  config.q_lora_rank = 2048;
  config.index_n_heads = 32;
  config.index_topk = 2048;
  config.intermediate_size = 9 * 2048 / 8;
  config.dspark_intermediate_size = 2048;
  config.dspark_target_layer_ids = {2, 3};
  config.rope_theta = 8e6;
  return config;
}

}  // namespace

const std::vector<ModelShape>& model_shapes() {
  static const std::vector<ModelShape> shapes = {
      {"mla-8h", "a small model of no published dimensions, 8 heads", ModelConfig()},
      {"v4-flash-tp8", "DeepSeek-V4-Flash, one of 8 ranks: 8 heads, hidden 4096, top 512; 4 layers", v4_flash()},
      {"v4-flash-tp8x2", "DeepSeek-V4-Flash, two of 8 ranks: 16 heads, hidden 4096, top 512; 4 layers",
       v4_flash_two_ranks()},
      {"v4-pro-tp8", "DeepSeek-V4-Pro, one of 8 ranks: 16 heads, hidden 7168, top 1024; 4 layers", v4_pro()},
      {"v4.1-flash-tp8", "DeepSeek-V4.1-Flash, one of 8 ranks: 8 heads, hidden 5120, top 512; 4 layers", v41_flash()},
      {"glm-5.2-tp8", "GLM-5.2, one of 8 ranks: 8 heads, hidden 6144, top 2048; 4 layers", glm_5_2()},
  };
  return shapes;
}

const ModelShape* find_model_shape(std::string_view name) {
  for (const ModelShape& shape : model_shapes()) {
    if (shape.name == name) return &shape;
  }
  return nullptr;
}

const ModelShape* shape_of_model(std::string_view model) {
  constexpr std::string_view kPrefix = "sweepctl/embedded-";
  if (model.substr(0, kPrefix.size()) != kPrefix) return nullptr;
  return find_model_shape(model.substr(kPrefix.size()));
}

}  // namespace sweep::engine::embedded
