// Turns the bytes of a streamed completion into the record of a request: token times and counts, usage, finish reason.
//
// Understands /v1/completions and /v1/chat/completions of OpenAI-compatible servers. An event brings tokens if
// - its choice has `token_ids` (vLLM's return_token_ids): as many as there are ids; else
// - its `usage` (continuous_usage_stats) counts more completion tokens than before: the difference; else
// - its choice has text: an unknown number if there is no usage in the event, none if the count did not move.
// An event without choices (the final usage) and one with only a role or a finish reason brings none.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/sample/sample.h"

namespace sweep::loadgen {

class CompletionStream {
 public:
  // Fills `sample`, which must outlive this object.
  explicit CompletionStream(sample::Sample& sample);
  CompletionStream(CompletionStream&&) noexcept;
  CompletionStream& operator=(CompletionStream&&) noexcept;
  ~CompletionStream();

  // Bytes of the body and when they were received (CLOCK_MONOTONIC).
  void receive(std::string_view bytes, int64_t received_ns);

  // The body is over. `complete`: as far as HTTP can tell, nothing is missing.
  void finish(bool complete);

  // Events so far that brought tokens.
  int64_t token_events() const;

  // What is wrong with the stream itself; lengths are checked elsewhere. Complete after finish().
  const std::vector<diag::Diagnostic>& problems() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace sweep::loadgen
