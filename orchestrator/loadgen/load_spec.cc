#include "orchestrator/loadgen/load_spec.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "orchestrator/diag/rules/load.h"

namespace sweep::loadgen {

namespace {

// The ids are most of what is sent: written without a tree.
std::string ids_field(const LoadSpec& spec, uint64_t prompt_seed) {
  constexpr size_t kBytesPerId = 7;
  std::string field = "\"prompt\":[";
  field.reserve(static_cast<size_t>(spec.isl) * kBytesPerId);
  for (const int64_t id : make_prompt(prompt_seed, spec.isl, spec.prompt_tokens)) {
    if (field.back() != '[') field += ',';
    const fmt::format_int digits(id);
    field.append(digits.data(), digits.size());
  }
  return field + "]";
}

std::string messages_field(const LoadSpec& spec, uint64_t prompt_seed) {
  const nlohmann::json messages = {
      {{"role", "user"}, {"content", make_words(prompt_seed, spec.isl - spec.template_tokens, spec.prompt_words)}}};
  return "\"messages\":" + messages.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::string_view api_name(Api api) {
  return api == Api::kChat ? "chat" : "completions";
}

std::string_view api_path(Api api) {
  return api == Api::kChat ? "/v1/chat/completions" : "/v1/completions";
}

diag::Diagnostics check(const LoadSpec& spec) {
  constexpr int64_t kLongest = int64_t{1} << 31;
  diag::Diagnostics problems;
  const auto require = [&](bool holds, std::string message) {
    if (!holds) problems.add(diag::make(diag::rule::load_bad_spec, std::move(message)));
  };
  const auto positive = [&](const char* name, int64_t value) {
    require(value > 0 && value < kLongest, fmt::format("\"{}\" is {}, expected a positive number", name, value));
  };
  positive("isl", spec.isl);
  positive("osl", spec.osl);
  positive("concurrency", spec.concurrency);
  positive("requests", spec.requests);
  require(spec.warmup_requests >= 0,
          fmt::format("\"warmup_requests\" is {}, expected 0 or more", spec.warmup_requests));
  if (spec.api == Api::kChat) {
    require(spec.prompt_words.size() >= 2,
            fmt::format("{} words to make prompts of, expected 2 or more", spec.prompt_words.size()));
    require(spec.template_tokens >= 0 && spec.template_tokens < spec.isl,
            fmt::format("the server's chat template adds {} tokens, which leaves no word in a prompt of {}",
                        spec.template_tokens, spec.isl));
    return problems;
  }
  require(spec.prompt_tokens.size() >= 2,
          fmt::format("the range of prompt tokens [{}, {}) leaves {} ids to choose from, expected 2 or more",
                      spec.prompt_tokens.begin, spec.prompt_tokens.end, spec.prompt_tokens.size()));
  require(spec.prompt_tokens.begin >= 0, fmt::format("the first prompt token is {}", spec.prompt_tokens.begin));
  return problems;
}

std::string completion_body(const LoadSpec& spec, uint64_t prompt_seed) {
  constexpr uint64_t kSeedMask = 0x7fffffff;  // engines take 32-bit seeds
  const nlohmann::json rest = {{"model", spec.model},
                               {"max_tokens", spec.osl},
                               {"min_tokens", spec.osl},
                               {"ignore_eos", true},
                               {"temperature", spec.temperature},
                               {"seed", prompt_seed & kSeedMask},
                               {"stream", true},
                               {"stream_options", {{"include_usage", true}, {"continuous_usage_stats", true}}},
                               {"return_token_ids", true}};
  std::string body = "{";
  body += spec.api == Api::kChat ? messages_field(spec, prompt_seed) : ids_field(spec, prompt_seed);
  body += ',';
  body += std::string_view(rest.dump()).substr(1);  // the other fields, without their opening brace
  return body;
}

}  // namespace sweep::loadgen
