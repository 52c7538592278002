#include "orchestrator/loadgen/load_spec.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "orchestrator/diag/rules/load.h"

namespace sweep::loadgen {

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
  constexpr size_t kBytesPerId = 7;
  std::string body = "{\"prompt\":[";
  body.reserve(static_cast<size_t>(spec.isl) * kBytesPerId);
  for (const int64_t id : make_prompt(prompt_seed, spec.isl, spec.prompt_tokens)) {
    if (body.back() != '[') body += ',';
    const fmt::format_int digits(id);
    body.append(digits.data(), digits.size());
  }
  body += "],";
  body += std::string_view(rest.dump()).substr(1);  // the other fields, without their opening brace
  return body;
}

}  // namespace sweep::loadgen
