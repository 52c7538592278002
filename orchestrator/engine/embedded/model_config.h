// The dimensions of the embedded engine's model: config.json as typed values. Nothing else in the engine knows a number
// of the model.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/engine/embedded/kv_layout.h"

namespace sweep::engine::embedded {

// A small decoder with multi-head latent attention in the manner of DeepSeek-V4, and its DSpark draft head. The default
// values are those of the model that make_model() writes when nothing else is asked for.
struct ModelConfig {
  int64_t vocab_size = 2048;
  int64_t hidden_size = 256;
  int64_t num_hidden_layers = 2;
  int64_t intermediate_size = 512;
  int64_t max_position_embeddings = 16384;

  int64_t num_attention_heads = 8;
  int64_t head_dim = 512;  // of queries and latents: NoPE part first, then the RoPE part; as the KV layout says
  int64_t qk_rope_head_dim = 64;
  std::string kv_layout = "v4_584";  // record format of the KV cache (kv_layout.h)
  int64_t q_lora_rank = 64;
  int64_t o_groups = 4;      // groups of heads with an output projection of their own
  int64_t o_lora_rank = 32;  // columns of one group's projection
  // Newest tokens a query sees, itself included. 0: there is no window, every layer has compressed latents, and a query
  // sees those of groups that end with it (with ratio 1: sparse attention over all tokens, as in DeepSeek-V3.2).
  int64_t sliding_window = 128;
  std::vector<int64_t> compress_ratios = {0, 4};  // per layer; 0 = window only, r = one latent per r tokens besides
  int64_t index_n_heads = 4;
  int64_t index_head_dim = 32;
  int64_t index_topk = 512;     // compressed latents a query sees
  int64_t kv_block_size = 256;  // tokens per page of the KV cache
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;

  int64_t dspark_block_size = 7;  // drafts of one pass
  int64_t dspark_markov_rank = 64;
  int64_t dspark_intermediate_size = 512;
  std::vector<int64_t> dspark_target_layer_ids = {0, 1};  // layers whose output the drafter reads
  int64_t dspark_noise_token_id = 3;

  int64_t bos_token_id = 0;
  int64_t eos_token_id = 1;
  int64_t pad_token_id = 2;

  int64_t nope_head_dim() const { return head_dim - qk_rope_head_dim; }
  bool has_window() const { return sliding_window > 0; }
  // Values include the rotary part of the latents where the whole latent is the value.
  bool rotates_values() const { return head_dim == kValueDim; }
  int64_t query_size() const { return num_attention_heads * head_dim; }
  int64_t output_size() const { return num_attention_heads * kValueDim; }
  int64_t o_rank_total() const { return o_groups * o_lora_rank; }
};

inline constexpr std::string_view kArchitecture = "SweepctlEmbeddedForCausalLM";

// The text of config.json; the same for the same values everywhere.
std::string config_text(const ModelConfig& config);

// Checks every field: presence, type, range, and what the engine and the kernels can do. `name` is used in messages.
diag::Result<ModelConfig> parse_config(std::string_view text, const std::string& name);

// Reasons why the engine cannot run these values; empty if it can.
std::string config_problem(const ModelConfig& config);

}  // namespace sweep::engine::embedded
