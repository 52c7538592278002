// The body of POST /v1/completions as typed values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "orchestrator/engine/embedded/generation.h"
#include "orchestrator/engine/embedded/tokenizer.h"

namespace sweep::engine::embedded {

struct CompletionRequest {
  GenerationParameters generation;
  bool stream = false;
  bool include_usage = false;           // a last chunk with usage and empty choices
  bool continuous_usage_stats = false;  // usage in every chunk
  bool return_token_ids = false;
};

// A refusal: HTTP status and the members of OpenAI's error object.
struct ApiError {
  int status = 400;
  std::string message;
  std::string param;
  std::string code;
};

// What requests are checked against.
struct CompletionLimits {
  std::string model_name;
  int64_t vocab_size = 0;
  int64_t max_model_len = 0;  // prompt and generated tokens together
};

std::variant<CompletionRequest, ApiError> parse_completion_request(std::string_view body, const Tokenizer& tokenizer,
                                                                   const CompletionLimits& limits);

}  // namespace sweep::engine::embedded
