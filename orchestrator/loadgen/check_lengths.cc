#include "orchestrator/loadgen/check_lengths.h"

#include <fmt/format.h>

#include "orchestrator/diag/rules/load.h"

namespace sweep::loadgen {

std::vector<diag::Diagnostic> check_lengths(const sample::Sample& sample, const AskedLengths& asked) {
  std::vector<diag::Diagnostic> problems;
  const auto add = [&](diag::RuleId rule, std::string message, std::string help = {}) {
    problems.push_back(diag::make(rule, std::move(message), std::move(help)));
  };
  const std::string reason = sample.finish_reason.empty() ? "none" : fmt::format("\"{}\"", sample.finish_reason);
  if (sample.prompt_tokens && asked.isl && *sample.prompt_tokens != *asked.isl)
    add(diag::rule::load_prompt_length,
        fmt::format("{} of {} prompt tokens as the server counts", *sample.prompt_tokens, *asked.isl),
        "the server truncated the prompt or added tokens of its own");
  if (!sample.prompt_tokens || !sample.completion_tokens)
    add(diag::rule::load_no_usage, "the reply has no usage, so its tokens cannot be counted",
        "the server must support stream_options.include_usage");

  const auto tokens = sample.completion_tokens ? sample.completion_tokens : sample.received_tokens;
  if (tokens && *tokens == 0 && sample.chunks.empty()) {
    const std::string of = asked.osl ? fmt::format("0 of {} tokens", *asked.osl) : "0 tokens";
    add(diag::rule::load_no_tokens, fmt::format("{}, finish reason {}", of, reason));
    return problems;
  }
  if (tokens && asked.osl && *tokens < *asked.osl)
    add(diag::rule::load_short_output, fmt::format("{} of {} tokens, finish reason {}", *tokens, *asked.osl, reason),
        "the engine must honour ignore_eos and min_tokens, and its model length must hold prompt and output");
  if (tokens && asked.osl && *tokens > *asked.osl)
    add(diag::rule::load_long_output, fmt::format("{} tokens where {} were asked for", *tokens, *asked.osl));
  if (sample.completion_tokens && sample.received_tokens && *sample.completion_tokens != *sample.received_tokens)
    add(diag::rule::load_count_mismatch, fmt::format("usage says {} output tokens, {} were received",
                                                     *sample.completion_tokens, *sample.received_tokens));
  // "max_tokens" is how one engine (ATOM) spells it.
  if (tokens && asked.osl && *tokens == *asked.osl && sample.finish_reason != "length" &&
      sample.finish_reason != "max_tokens")
    add(diag::rule::load_finish_reason, fmt::format("finish reason {}, expected \"length\"", reason));
  return problems;
}

}  // namespace sweep::loadgen
