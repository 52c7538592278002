// What load to put on which server.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/http/request.h"
#include "orchestrator/loadgen/prompt.h"

namespace sweep::loadgen {

// How prompts are sent, and so how their length is known.
enum class Api : uint8_t {
  kCompletions,  // /v1/completions with the token ids themselves: exact by construction
  kChat,         // /v1/chat/completions with words that are one token each, as many as leave room for what the server's
                 // template adds (chat_template.h): exact if the server's usage says so, which is checked each time
};
std::string_view api_name(Api api);  // "completions", "chat"
std::string_view api_path(Api api);  // "/v1/completions", ...

struct LoadSpec {
  std::string job;       // recorded in every sample
  std::string base_url;  // "http://127.0.0.1:8000"; the path is appended
  Api api = Api::kCompletions;
  std::string model;  // as /v1/models lists it
  http::Access access = {};

  int64_t isl = 0;              // prompt tokens of every request
  int64_t osl = 0;              // output tokens of every request
  int64_t concurrency = 1;      // requests in flight
  int64_t requests = 0;         // measured ones
  int64_t warmup_requests = 0;  // completed before the first measured one is sent

  TokenRange prompt_tokens = {};               // of kCompletions
  std::vector<std::string> prompt_words = {};  // of kChat: each one token, at the beginning and behind a space
  int64_t template_tokens = 0;                 // of kChat: that the server adds to the words of a prompt
  uint64_t seed = 0;
  double temperature = 0;

  http::Timeouts timeouts = {.connect = std::chrono::seconds(10),
                             .first_byte = std::chrono::minutes(10),
                             .idle = std::chrono::minutes(2),
                             .total = std::chrono::minutes(60)};

  // So many requests in a row without a complete reply end the load; 0: never.
  int64_t give_up_after = 3;
};

// Every reason why the load cannot be generated.
diag::Diagnostics check(const LoadSpec& spec);

// The JSON body of one request.
std::string completion_body(const LoadSpec& spec, uint64_t prompt_seed);

}  // namespace sweep::loadgen
