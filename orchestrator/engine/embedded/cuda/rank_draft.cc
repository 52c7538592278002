// The drafter, on the first rank.
#include <algorithm>

#include "orchestrator/engine/embedded/cuda/rank.h"
#include "orchestrator/engine/embedded/sampling.h"

namespace sweep::engine::embedded::cuda {

void Rank::draft(const DraftInput& input, std::vector<int32_t>& tokens, std::vector<float>& logits) {
  DraftTable table = {.sequences = static_cast<int32_t>(input.slots.size()), .count = input.count};
  draft_staging_.clear();
  table.uniforms = draft_staging_.add(input.uniforms);
  table.slots = draft_staging_.add(input.slots);
  table.last_tokens = draft_staging_.add(input.last_tokens);
  table.masked = draft_staging_.add(input.masked);
  table.temperatures = draft_staging_.add(input.temperatures);
  const std::array<int32_t, 2> key = {table.sequences, table.count};
  auto found = draft_graphs_.find(key);
  if (found == draft_graphs_.end()) {
    found = draft_graphs_.emplace(key, Graph(stream_, [&] { enqueue_draft(table); })).first;
  }
  check(cudaEventRecord(pass_begin_.get(), stream_.get()), "cudaEventRecord");
  found->second.launch(stream_);
  check(cudaEventRecord(pass_end_.get(), stream_.get()), "cudaEventRecord");
  const bool samples = std::any_of(input.temperatures.begin(), input.temperatures.end(), [](float t) { return t > 0; });
  const auto rows = static_cast<size_t>(table.sequences * table.count);
  logits.resize(samples ? rows * static_cast<size_t>(config_.vocab_size) : 0);
  if (samples) {
    check(cudaMemcpyAsync(logits.data(), draft_.logits.get(), logits.size() * sizeof(float), cudaMemcpyDeviceToHost,
                          stream_.get()),
          "cudaMemcpyAsync");
  }
  stream_.wait();
  tokens.assign(draft_.host_tokens.get(), draft_.host_tokens.get() + rows);
  ++times_.draft_steps;
  times_.draft_s += pass_end_.since(pass_begin_);
}

void Rank::enqueue_draft(const DraftTable& table) {
  const RankDraft& weights = weights_.draft;
  const auto hidden = static_cast<int32_t>(config_.hidden_size);
  const int32_t rows = table.sequences * table.count;
  draft_staging_.copy(stream_.get());
  gather_features(kept_features_.get(), table.slots, table.sequences, feature_size(), draft_.features.get(),
                  stream_.get());
  gemm_.multiply({.weights = weights.fc.get(),
                  .outputs = hidden,
                  .inputs = feature_size(),
                  .from = draft_.features.get(),
                  .rows = table.sequences,
                  .to = draft_.context.get()});
  make_draft_rows({.sequences = table.sequences,
                   .count = table.count,
                   .size = hidden,
                   .context = draft_.context.get(),
                   .position_embeddings = weights.position_embeddings.get(),
                   .hidden = draft_.hidden.get()},
                  stream_.get());
  AddNormArguments norm = {.rows = rows,
                           .size = hidden,
                           .hidden = draft_.hidden.get(),
                           .addend = nullptr,
                           .weight = weights.input_norm.get(),
                           .epsilon = static_cast<float>(config_.rms_norm_eps),
                           .normed = draft_.normed.get(),
                           .features = nullptr,
                           .features_stride = 0,
                           .gather = nullptr};
  add_norm(norm, stream_.get());
  enqueue_mlp_product({.weights = &weights.mlp,
                       .rows = rows,
                       .from = draft_.normed.get(),
                       .gate_up = draft_.gate_up.get(),
                       .activated = draft_.activated.get(),
                       .to = draft_.down.get()});
  norm.addend = draft_.down.get();
  norm.weight = weights.norm.get();
  add_norm(norm, stream_.get());
  gemm_.multiply({.weights = weights_.lm_head.get(),
                  .outputs = config_.vocab_size,
                  .inputs = hidden,
                  .from = draft_.normed.get(),
                  .rows = rows,
                  .to = draft_.logits.get()});
  for (int32_t position = 0; position < table.count; ++position) {
    choose_draft({.sequences = table.sequences,
                  .count = table.count,
                  .position = position,
                  .vocab = static_cast<int32_t>(config_.vocab_size),
                  .rank = static_cast<int32_t>(config_.dspark_markov_rank),
                  .end_token = static_cast<int32_t>(config_.eos_token_id),
                  .impossible = kImpossibleLogit,
                  .logits = draft_.logits.get(),
                  .markov_in = weights.markov_in.get(),
                  .markov_out = weights.markov_out.get(),
                  .last_tokens = table.last_tokens,
                  .masked = table.masked,
                  .temperatures = table.temperatures,
                  .uniforms = table.uniforms,
                  .tokens = draft_.tokens.get(),
                  .best = draft_.best.get(),
                  .arrived = draft_.arrived.get()},
                 stream_.get());
  }
  check(cudaMemcpyAsync(draft_.host_tokens.get(), draft_.tokens.get(), static_cast<size_t>(rows) * sizeof(int32_t),
                        cudaMemcpyDeviceToHost, stream_.get()),
        "cudaMemcpyAsync");
}

}  // namespace sweep::engine::embedded::cuda
