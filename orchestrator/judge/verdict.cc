#include "orchestrator/judge/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "orchestrator/diag/rules/judge.h"

namespace sweep::judge {

namespace {

using diag::RuleId;
namespace rule = diag::rule;

Condition passed(RuleId rule, std::string text) {
  return {rule, Outcome::kPassed, std::move(text)};
}
Condition failed(RuleId rule, std::string text) {
  return {rule, Outcome::kFailed, std::move(text)};
}
Condition not_applicable(RuleId rule, std::string text) {
  return {rule, Outcome::kNotApplicable, std::move(text)};
}
Condition decided(RuleId rule, bool good, std::string text) {
  return {rule, good ? Outcome::kPassed : Outcome::kFailed, std::move(text)};
}

Condition sample_count(const Evidence& e) {
  const auto measured = static_cast<int64_t>(e.samples.size());
  return decided(rule::judge_sample_count, measured == e.planned_requests,
                 fmt::format("{} of {} planned requests were measured", measured, e.planned_requests));
}

Condition requests(const Evidence& e) {
  std::string first;
  int64_t failures = 0;
  for (const sample::Sample& s : e.samples) {
    if (s.ok()) continue;
    if (++failures == 1) first = fmt::format("; the first is request {}: {}", s.sequence, s.problems.front().message);
  }
  if (failures == 0) return passed(rule::judge_requests, fmt::format("all {} requests completed", e.samples.size()));
  return failed(rule::judge_requests, fmt::format("{} of {} requests failed{}", failures, e.samples.size(), first));
}

bool has_exact_lengths(const sample::Sample& s, const plan::Job& job) {
  return s.prompt_tokens == job.isl && s.completion_tokens == job.osl && s.received_tokens == job.osl &&
         s.finish_reason == "length";
}

std::string count_text(const std::optional<int64_t>& count) {
  return count ? std::to_string(*count) : "an unknown number of";
}

Condition lengths(const Evidence& e) {
  int64_t wrong = 0;
  std::string first;
  for (const sample::Sample& s : e.samples) {
    if (has_exact_lengths(s, e.job)) continue;
    if (++wrong != 1) continue;
    first = fmt::format(
        "; the first is request {}: {} prompt tokens (asked {}), {} output tokens by usage and {} received (asked {}), "
        "finish reason \"{}\"",
        s.sequence, count_text(s.prompt_tokens), e.job.isl, count_text(s.completion_tokens),
        count_text(s.received_tokens), e.job.osl, s.finish_reason);
  }
  if (wrong == 0 && !e.samples.empty())
    return passed(rule::judge_lengths, fmt::format("all {} requests had exactly {} prompt and {} output tokens",
                                                   e.samples.size(), e.job.isl, e.job.osl));
  return failed(rule::judge_lengths,
                fmt::format("{} of {} requests did not have the exact lengths{}", wrong, e.samples.size(), first));
}

// The windows whose mean is further from `length` than chance allows.
int64_t windows_outside(const Evidence& e, double length) {
  return std::count_if(e.windows.begin(), e.windows.end(), [&](const Steps& w) {
    return w.steps <= 0 ||
           std::abs(w.acceptance_length() - length) > acceptance_tolerance(length, w.steps, kWindowDeviations);
  });
}

Condition acceptance(const Evidence& e) {
  constexpr RuleId kRule = rule::judge_acceptance;
  if (e.job.num_draft_tokens == 0) return not_applicable(kRule, "the entry uses no speculative decoding");
  if (!e.acceptance || e.acceptance->steps <= 0)
    return failed(kRule, "the engine reported no verification steps, so the realised acceptance length is unknown");
  const double realised = e.acceptance->acceptance_length();
  const std::string found =
      fmt::format("realised acceptance length {:.3f} over {} verification steps", realised, e.acceptance->steps);
  if (!e.job.acceptance.length) return passed(kRule, found + "; measured, so there is no value to meet");
  const double asked = *e.job.acceptance.length;
  const double tolerance = acceptance_tolerance(asked, e.acceptance->steps, kOverallDeviations);
  if (std::abs(realised - asked) > tolerance)
    return failed(kRule, fmt::format("{}, asked {} +- {:.3f}", found, asked, tolerance));
  const int64_t outside = windows_outside(e, asked);
  if (outside != 0)
    return failed(kRule, fmt::format("{}, but {} of {} decode windows are further from {} than chance allows", found,
                                     outside, e.windows.size(), asked));
  return passed(kRule, fmt::format("{}, asked {} +- {:.3f}", found, asked, tolerance));
}

Condition counters(const Evidence& e) {
  constexpr RuleId kRule = rule::judge_counters;
  if (e.job.num_draft_tokens == 0) return not_applicable(kRule, "the entry uses no speculative decoding");
  if (!e.acceptance) return failed(kRule, "the engine's counters could not be read");
  int64_t received = 0;
  for (const sample::Sample& s : e.samples) received += s.received_tokens.value_or(s.completion_tokens.value_or(0));
  const auto requests_count = static_cast<int64_t>(e.samples.size());
  // Each request's first token comes from its prefill; its last step may commit up to `num_draft_tokens` tokens more
  // than max_tokens lets through.
  const int64_t least = received - requests_count;
  const int64_t most = least + requests_count * e.job.num_draft_tokens;
  const int64_t counted = e.acceptance->steps + e.acceptance->accepted;
  return decided(kRule, counted >= least && counted <= most,
                 fmt::format("counters account for {} tokens; these requests explain {} to {}", counted, least, most));
}

Condition weights(const Evidence& e) {
  constexpr RuleId kRule = rule::judge_weights;
  if (!e.weights_verified) return failed(kRule, "the weights were not verified against the pin");
  return decided(kRule, e.weights_revision == e.job.revision,
                 fmt::format("weights verified at revision {}, the entry pins {}", e.weights_revision, e.job.revision));
}

Condition kernels(const Evidence& e) {
  constexpr RuleId kRule = rule::judge_kernels;
  if (!e.gate_passed || e.gated_kernel_sha256.empty()) return failed(kRule, "the kernels did not pass their gate");
  if (!e.uses_bundled_kernels)
    return passed(kRule, fmt::format("bundled kernels {} gated; this engine uses its own", e.gated_kernel_sha256));
  if (e.loaded_kernel_sha256.empty()) return failed(kRule, "the engine does not say which kernel library it loaded");
  return decided(
      kRule, e.loaded_kernel_sha256 == e.gated_kernel_sha256,
      fmt::format("gated kernel library {}, loaded by the engine {}", e.gated_kernel_sha256, e.loaded_kernel_sha256));
}

Condition image(const Evidence& e) {
  constexpr RuleId kRule = rule::judge_image;
  if (e.job.gpus == 0 || e.job.framework == "embedded")
    return not_applicable(kRule, "the engine runs from this build, without an image");
  return failed(kRule, e.job.image_pinned
                           ? fmt::format("the running image's digest was not read back; the entry pins {}", e.job.image)
                           : fmt::format("the entry's image {} is not pinned by digest", e.job.image));
}

Condition prefix_cache(const Evidence& e) {
  int64_t cached = 0;
  for (const sample::Sample& s : e.samples) cached += s.cached_tokens.value_or(0);
  return decided(rule::judge_prefix_cache, cached == 0 && e.prefix_cache_hits == 0,
                 fmt::format("{} prompt tokens came from a prefix cache by usage, {} by the engine's counter", cached,
                             e.prefix_cache_hits));
}

Condition jit(const Evidence& e) {
  constexpr RuleId kRule = rule::judge_jit;
  if (!e.compiles_at_run_time) return passed(kRule, "the engine compiles nothing at run time");
  return failed(kRule, "whether the engine compiled kernels inside the window was not determined");
}

Condition no_telemetry(const Evidence& e, RuleId rule) {
  return failed(rule,
                fmt::format("GPU telemetry was not recorded{}{}", e.no_telemetry.empty() ? "" : ": ", e.no_telemetry));
}

Condition exclusive(const Evidence& e) {
  constexpr RuleId kRule = rule::judge_exclusive;
  if (e.job.gpus == 0) return not_applicable(kRule, "no GPU was used, so none could be shared");
  if (!e.telemetry) return no_telemetry(e, kRule);
  if (!e.telemetry->occupied_before.empty())
    return failed(kRule, fmt::format("before the engine was launched, {}", e.telemetry->occupied_before));
  if (!e.telemetry->foreign_processes) return failed(kRule, "the processes on the GPUs could not be listed");
  if (*e.telemetry->foreign_processes == 0) return passed(kRule, "no other process was seen on the GPUs");
  return failed(kRule, fmt::format("{} other processes were on one of the GPUs", *e.telemetry->foreign_processes));
}

Condition power(const Evidence& e) {
  constexpr RuleId kRule = rule::judge_power;
  if (e.job.gpus == 0) return not_applicable(kRule, "no GPU was used, so no power was measured");
  if (!e.telemetry) return no_telemetry(e, kRule);
  return decided(kRule, e.telemetry->power_valid, e.telemetry->power_text);
}

}  // namespace

double acceptance_tolerance(double length, int64_t steps, double standard_deviations) {
  constexpr double kRounding = 1e-9;
  const double fraction = length - std::floor(length);
  return standard_deviations * std::sqrt(fraction * (1 - fraction) / static_cast<double>(steps)) + kRounding;
}

bool Verdict::valid() const {
  return !conditions.empty() && std::none_of(conditions.begin(), conditions.end(),
                                             [](const Condition& c) { return c.outcome == Outcome::kFailed; });
}

std::vector<std::string> Verdict::reasons() const {
  std::vector<std::string> texts;
  for (const Condition& c : conditions)
    if (c.outcome == Outcome::kFailed) texts.push_back(c.text);
  return texts;
}

Verdict judge(const Evidence& e) {
  return {{sample_count(e), requests(e), lengths(e), acceptance(e), counters(e), prefix_cache(e), weights(e),
           kernels(e), image(e), jit(e), exclusive(e), power(e)}};
}

std::string_view outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPassed:
      return "passed";
    case Outcome::kFailed:
      return "failed";
    case Outcome::kNotApplicable:
      return "not-applicable";
  }
  return "failed";
}

nlohmann::json to_json(const Verdict& verdict) {
  nlohmann::json conditions = nlohmann::json::array();
  for (const Condition& c : verdict.conditions)
    conditions.push_back(
        {{"rule", diag::rule_info(c.rule).slug}, {"outcome", outcome_name(c.outcome)}, {"text", c.text}});
  return {{"valid", verdict.valid()}, {"reasons", verdict.reasons()}, {"conditions", std::move(conditions)}};
}

}  // namespace sweep::judge
