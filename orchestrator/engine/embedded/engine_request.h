// A request inside the engine. Private to engine*.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "orchestrator/engine/embedded/engine.h"

namespace sweep::engine::embedded {

struct Engine::Request {
  Request(int64_t number, uint64_t seed, GenerationParameters asked);

  int64_t prompt_size() const { return static_cast<int64_t>(parameters.prompt.size()); }
  bool is_decoding() const { return generated > 0 && !retired; }

  int64_t id;
  GenerationParameters parameters;
  std::shared_ptr<TokenStream> stream;
  Sequence sequence;
  std::vector<int32_t> tokens;  // prompt and committed ones
  int64_t prompt_run = 0;       // prompt tokens whose records are in the cache
  int64_t generated = 0;
  base::SplitMix64 sample_random;
  base::SplitMix64 accept_random;
  bool retired = false;
};

// One decode step.
struct Engine::Step {
  std::span<const int32_t> drafts_of(size_t index) const {
    return std::span(drafts.tokens).subspan(index * static_cast<size_t>(count), static_cast<size_t>(count));
  }

  std::vector<Request*> requests;
  int64_t count = 0;  // drafts per request
  Drafts drafts;
  std::vector<int64_t> first_rows;   // per request: row of its first query token
  std::vector<int64_t> accepted;     // per request, explicit acceptance only
  std::vector<size_t> first_logits;  // per request: its first row in logits_
};

}  // namespace sweep::engine::embedded
