// Dimensions of a model that takes a millisecond a step and still uses every part: several cache blocks, a full window,
// more compressed latents than the selection takes.
#pragma once

#include "orchestrator/engine/embedded/model_config.h"

namespace sweep::engine::embedded {

inline ModelConfig small_config() {
  ModelConfig config;
  config.vocab_size = 24;
  config.hidden_size = 64;
  config.intermediate_size = 48;
  config.max_position_embeddings = 512;
  config.num_attention_heads = 2;
  config.q_lora_rank = 16;
  config.o_groups = 2;
  config.o_lora_rank = 8;
  config.sliding_window = 16;
  config.index_n_heads = 2;
  config.index_head_dim = 8;
  config.index_topk = 8;
  config.kv_block_size = 32;
  config.dspark_markov_rank = 16;
  config.dspark_intermediate_size = 40;
  return config;
}

}  // namespace sweep::engine::embedded
