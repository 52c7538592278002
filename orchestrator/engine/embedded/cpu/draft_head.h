// The DSpark draft head: one pass gives logits for a whole block of positions, a low-rank Markov factor adds what
// depends on the token drafted before.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "orchestrator/engine/embedded/cpu/weights.h"
#include "orchestrator/engine/embedded/cpu/worker_pool.h"

namespace sweep::engine::embedded::cpu {

class DraftHead {
 public:
  // Holds references; they must outlive the draft head.
  DraftHead(const Model& model, WorkerPool& workers) : model_(model), workers_(workers) {}

  // One sequence: the target's hidden states at the newest token it has run, and the token committed after it.
  struct Context {
    std::span<const float> features;
    int32_t last_token = 0;
  };

  // Picks draft `position` of sequence `index` from its logits. Called from several threads for different sequences, in
  // order of position for one.
  using Choose = std::function<int32_t(size_t index, int64_t position, std::span<float> logits)>;

  // Drafts `count` tokens (at most dspark_block_size) for each sequence: [sequence, count]. A sequence's drafts do not
  // depend on the others.
  std::vector<int32_t> propose(std::span<const Context> contexts, int64_t count, const Choose& choose);

 private:
  void run_block(std::span<const Context> contexts, int64_t count, size_t index);

  const Model& model_;
  WorkerPool& workers_;
  std::vector<float> normed_;  // [sequence, count, hidden]
  std::vector<float> logits_;  // [sequence, count, padded vocabulary]
};

}  // namespace sweep::engine::embedded::cpu
