#include "orchestrator/loadgen/chat_template.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "orchestrator/diag/rules/load.h"
#include "orchestrator/loadgen/closed_loop.h"

namespace sweep::loadgen {

namespace {

// Not of any seed that people choose: its prompts are those of no load.
constexpr uint64_t kProbeSeed = 0x70726f6265;

// What makes the request useless here; its lengths are what it is sent for.
std::optional<diag::Diagnostic> failure_of(const Measurement& probe) {
  for (const diag::Diagnostic& problem : probe.problems.items())
    if (problem.severity == diag::Severity::kError && problem.rule != diag::rule::load_prompt_length &&
        problem.rule != diag::rule::load_short_output && problem.rule != diag::rule::load_long_output &&
        problem.rule != diag::rule::load_finish_reason)
      return problem;
  return std::nullopt;
}

}  // namespace

diag::Result<int64_t> find_template_tokens(const LoadSpec& spec, const std::stop_token& stop) {
  LoadSpec probe = spec;
  probe.api = Api::kChat;
  probe.template_tokens = 0;
  probe.osl = 1;
  probe.requests = 1;
  probe.warmup_requests = 0;
  probe.concurrency = 1;
  probe.seed = spec.seed ^ kProbeSeed;
  auto measured = run_closed_loop(
      probe, [](const sample::Sample&) -> diag::Result<diag::Done> { return diag::Done{}; }, {}, stop);
  if (!measured) return diag::fail(std::move(measured).error());
  if (auto failure = failure_of(*measured)) return diag::fail(std::move(*failure));
  const auto counted = measured->samples.empty() ? std::nullopt : measured->samples.front().prompt_tokens;
  if (!counted) return diag::fail(diag::rule::load_template_unknown, "the server does not say how long a prompt was");
  const int64_t added = *counted - spec.isl;
  if (added < 0 || added >= spec.isl)
    return diag::fail(
        diag::rule::load_template_unknown,
        fmt::format("the server counts {} tokens in a prompt of {} words of one token each", *counted, spec.isl),
        added < 0 ? "its tokenizer is not that of the weights" : "choose a longer prompt");
  return added;
}

}  // namespace sweep::loadgen
