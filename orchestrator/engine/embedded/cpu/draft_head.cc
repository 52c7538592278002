#include "orchestrator/engine/embedded/cpu/draft_head.h"

#include "orchestrator/engine/embedded/cpu/layer_math.h"
#include "orchestrator/engine/embedded/cpu/row_ops.h"
#include "orchestrator/engine/embedded/cpu/scratch.h"

namespace sweep::engine::embedded::cpu {

void DraftHead::run_block(std::span<const Context> contexts, int64_t count, size_t index) {
  const DraftWeights& weights = model_.draft;
  const ModelConfig& config = model_.config;
  const int64_t size = config.hidden_size;
  Scratch& scratch = Scratch::of_this_thread();
  float* const context = scratch.get(3, weights.fc.padded_outputs);
  float* const hidden = scratch.get(4, count * size);
  float* const normed = scratch.get(5, count * size);
  weights.fc.multiply(contexts[index].features.data(), weights.fc.inputs, 1, context, weights.fc.padded_outputs);
  for (int64_t k = 0; k < count; ++k) {
    const float* const position = weights.position_embeddings.data() + k * size;
    for (int64_t i = 0; i < size; ++i) hidden[k * size + i] = context[i] + position[i];
    rms_norm(hidden + k * size, weights.input_norm.data(), size, config.rms_norm_eps, normed + k * size);
  }
  add_mlp(weights.mlp, config, normed, count, hidden);
  float* const result = normed_.data() + static_cast<int64_t>(index) * count * size;
  for (int64_t k = 0; k < count; ++k) {
    rms_norm(hidden + k * size, weights.norm.data(), size, config.rms_norm_eps, result + k * size);
  }
}

std::vector<int32_t> DraftHead::propose(std::span<const Context> contexts, int64_t count, const Choose& choose) {
  const DraftWeights& weights = model_.draft;
  const ModelConfig& config = model_.config;
  const auto sequences = static_cast<int64_t>(contexts.size());
  const int64_t stride = model_.lm_head.padded_outputs;
  normed_.resize(static_cast<size_t>(sequences * count * config.hidden_size));
  logits_.resize(static_cast<size_t>(sequences * count * stride));
  workers_.run(sequences, [&](int64_t index) { run_block(contexts, count, static_cast<size_t>(index)); });
  multiply_in_parallel(workers_, model_.lm_head, normed_.data(), sequences * count, logits_.data());

  std::vector<int32_t> drafts(static_cast<size_t>(sequences * count));
  workers_.run(sequences, [&](int64_t index) {
    float* const bias = Scratch::of_this_thread().get(0, weights.markov_w2.padded_outputs);
    int32_t previous = contexts[static_cast<size_t>(index)].last_token;
    for (int64_t k = 0; k < count; ++k) {
      float* const logits = logits_.data() + (index * count + k) * stride;
      const float* const code = weights.markov_w1.data() + previous * config.dspark_markov_rank;
      weights.markov_w2.multiply(code, config.dspark_markov_rank, 1, bias, weights.markov_w2.padded_outputs);
      for (int64_t token = 0; token < config.vocab_size; ++token) logits[token] += bias[token];
      previous = choose(static_cast<size_t>(index), k, {logits, static_cast<size_t>(config.vocab_size)});
      drafts[static_cast<size_t>(index * count + k)] = previous;
    }
  });
  return drafts;
}

}  // namespace sweep::engine::embedded::cpu
