#include "orchestrator/engine/embedded/completion_response.h"

#include <nlohmann/json.hpp>

namespace sweep::engine::embedded {

namespace {

using nlohmann::ordered_json;

ordered_json envelope(const CompletionFormatter::Identity& identity) {
  ordered_json json;
  json["id"] = identity.id;
  json["object"] = "text_completion";
  json["created"] = identity.created_s;
  json["model"] = identity.model_name;
  return json;
}

ordered_json usage(int64_t prompt_tokens, int64_t completion_tokens) {
  ordered_json json;
  json["prompt_tokens"] = prompt_tokens;
  json["completion_tokens"] = completion_tokens;
  json["total_tokens"] = prompt_tokens + completion_tokens;
  json["prompt_tokens_details"] = {{"cached_tokens", 0}};
  return json;
}

ordered_json choice(std::string text, const TokenEvent& tokens, bool with_ids) {
  ordered_json json;
  json["index"] = 0;
  json["text"] = std::move(text);
  json["logprobs"] = nullptr;
  json["finish_reason"] = tokens.finish ? ordered_json(finish_reason_name(*tokens.finish)) : ordered_json();
  if (with_ids) json["token_ids"] = tokens.tokens;
  return json;
}

std::string sse(const ordered_json& json) {
  return "data: " + json.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n\n";
}

}  // namespace

std::string CompletionFormatter::text_of(const TokenEvent& tokens) {
  std::string text;
  for (const int32_t token : tokens.tokens) text += assembler_.add(tokenizer_.bytes_of(token));
  if (tokens.finish) text += assembler_.finish();
  completion_tokens_ += static_cast<int64_t>(tokens.tokens.size());
  return text;
}

std::string CompletionFormatter::event(const TokenEvent& tokens) {
  const bool is_first = completion_tokens_ == 0;
  ordered_json json = envelope(identity_);
  json["choices"] = ordered_json::array({choice(text_of(tokens), tokens, request_.return_token_ids)});
  if (request_.return_token_ids && is_first) json["choices"][0]["prompt_token_ids"] = request_.generation.prompt;
  if (request_.continuous_usage_stats) {
    json["usage"] = usage(static_cast<int64_t>(request_.generation.prompt.size()), completion_tokens_);
  }
  return sse(json);
}

std::string CompletionFormatter::usage_event() const {
  ordered_json json = envelope(identity_);
  json["choices"] = ordered_json::array();
  json["usage"] = usage(static_cast<int64_t>(request_.generation.prompt.size()), completion_tokens_);
  return sse(json);
}

std::string CompletionFormatter::whole(const TokenEvent& tokens) {
  ordered_json json = envelope(identity_);
  json["choices"] = ordered_json::array({choice(text_of(tokens), tokens, request_.return_token_ids)});
  if (request_.return_token_ids) json["choices"][0]["prompt_token_ids"] = request_.generation.prompt;
  json["usage"] = usage(static_cast<int64_t>(request_.generation.prompt.size()), completion_tokens_);
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace sweep::engine::embedded
