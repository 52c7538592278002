// The bodies that /v1/completions sends back.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "orchestrator/engine/embedded/completion_request.h"
#include "orchestrator/engine/embedded/tokenizer.h"

namespace sweep::engine::embedded {

// Builds the bodies of one request; holds references for that long.
class CompletionFormatter {
 public:
  struct Identity {
    std::string id;
    int64_t created_s = 0;
    std::string model_name;
  };
  CompletionFormatter(const CompletionRequest& request, const Tokenizer& tokenizer, Identity identity)
      : request_(request), tokenizer_(tokenizer), identity_(std::move(identity)) {}

  // One server-sent event with the tokens of one step.
  std::string event(const TokenEvent& tokens);
  // The event with usage and without choices.
  std::string usage_event() const;
  // The body of a response that is not streamed; `tokens` are all of the request.
  std::string whole(const TokenEvent& tokens);

 private:
  std::string text_of(const TokenEvent& tokens);

  const CompletionRequest& request_;
  const Tokenizer& tokenizer_;
  Identity identity_;
  Utf8Assembler assembler_;
  int64_t completion_tokens_ = 0;
};

}  // namespace sweep::engine::embedded
