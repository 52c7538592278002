#include "orchestrator/pipeline/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "orchestrator/diag/rules/run.h"
#include "orchestrator/loadgen/chat_template.h"
#include "orchestrator/loadgen/open_loop.h"
#include "orchestrator/pipeline/prompt_tokens.h"

namespace sweep::pipeline {

using nlohmann::json;

std::optional<diag::Diagnostic> load_refusal(const plan::Job& job, const RunOptions& options) {
  if (!options.arrivals || job.research_only) return std::nullopt;
  return diag::make_at(
      diag::rule::run_closed_loop_only, job.where,
      fmt::format("\"{}\" is measured with {} requests in flight; --request-rate sends on a schedule instead",
                  job.entry, job.concurrency),
      "leave out --request-rate, or measure an entry that is research-only");
}

std::string describe_load(const plan::Job& job, const RunOptions& options) {
  if (!options.arrivals) return fmt::format("closed loop, {} in flight", job.concurrency);
  return fmt::format(
      "open loop, {} requests/s {}", options.arrivals->per_second,
      options.arrivals->spacing == loadgen::Spacing::kFixed ? "at fixed intervals" : "at random (Poisson)");
}

json load_options(const RunOptions& options) {
  const auto& arrivals = options.arrivals;
  return {{"mode", arrivals ? "open-loop" : "closed-loop"},
          {"request_rate", arrivals ? json(arrivals->per_second) : json(nullptr)},
          {"arrivals", arrivals ? json(loadgen::spacing_name(arrivals->spacing)) : json(nullptr)},
          {"api", loadgen::api_name(options.api)}};
}

http::Timeouts request_timeouts(std::chrono::milliseconds first_token) {
  constexpr std::chrono::milliseconds kLeast{1};
  constexpr int kTokensShare = 5;
  return {.first_byte = std::max(first_token, kLeast),
          .idle = std::max(first_token / kTokensShare, kLeast),
          .total = std::max(first_token * 2, kLeast)};
}

diag::Result<loadgen::LoadSpec> load_spec(const Line& line, const std::string& base_url,
                                          const WeightsOutcome& weights) {
  loadgen::LoadSpec spec{.job = line.job.id,
                         .base_url = base_url,
                         .api = line.options.api,
                         .model = line.job.model,
                         .access = line.options.access,
                         .isl = line.job.isl,
                         .osl = line.job.osl,
                         .concurrency = line.job.concurrency,
                         .requests = line.job.requests,
                         .warmup_requests = line.job.warmup_requests,
                         .seed = line.options.seed,
                         .give_up_after = 1};  // one failed request already makes the run invalid
  spec.timeouts = request_timeouts(line.options.request_timeout);
  if (spec.api == loadgen::Api::kCompletions) {
    auto tokens = prompt_tokens(weights.model_folder);
    if (!tokens) return diag::fail(std::move(tokens).error());
    spec.prompt_tokens = std::move(*tokens);
    return spec;
  }
  auto words = prompt_words(weights.model_folder);
  if (!words) return diag::fail(std::move(words).error());
  spec.prompt_words = std::move(*words);
  auto added = loadgen::find_template_tokens(spec, line.stop);
  if (!added) return diag::fail(std::move(added).error());
  spec.template_tokens = *added;
  return spec;
}

json load_document(const RunOptions& options, const loadgen::LoadSpec& spec) {
  json document = load_options(options);
  document["template_tokens"] = spec.api == loadgen::Api::kChat ? json(spec.template_tokens) : json(nullptr);
  return document;
}

diag::Result<loadgen::Measurement> run_load(const Line& line, const loadgen::LoadSpec& spec,
                                            const loadgen::SampleSink& sink, const loadgen::ProgressSink& progress) {
  if (line.options.arrivals) return loadgen::run_open_loop(spec, *line.options.arrivals, sink, progress, line.stop);
  return loadgen::run_closed_loop(spec, sink, progress, line.stop);
}

}  // namespace sweep::pipeline
