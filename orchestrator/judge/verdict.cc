#include "orchestrator/judge/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "orchestrator/diag/rules/judge.h"
#include "orchestrator/judge/recorded.h"

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

bool has_exact_lengths(const sample::Sample& s, const plan::Job& job, bool received_by_counter) {
  return s.prompt_tokens == job.isl && s.completion_tokens == job.osl &&
         (s.received_tokens == job.osl || received_by_counter) && s.finish_reason == "length";
}

// Whether the second count of output tokens is the engine's, in sum: of an engine that sends neither token ids nor
// usage with each event, as ATOM, what arrived cannot be counted.
bool is_received_by_counter(const Evidence& e) {
  const bool unknown = std::none_of(e.samples.begin(), e.samples.end(),
                                    [](const sample::Sample& s) { return s.received_tokens.has_value(); });
  return unknown && !e.samples.empty() && e.counted.problem.empty() &&
         e.counted.generated_tokens == e.job.osl * static_cast<int64_t>(e.samples.size());
}

std::string count_text(const std::optional<int64_t>& count) {
  return count ? std::to_string(*count) : "an unknown number of";
}

Condition lengths(const Evidence& e) {
  int64_t wrong = 0;
  std::string first;
  const bool by_counter = is_received_by_counter(e);
  for (const sample::Sample& s : e.samples) {
    if (has_exact_lengths(s, e.job, by_counter)) continue;
    if (++wrong != 1) continue;
    first = fmt::format(
        "; the first is request {}: {} prompt tokens (asked {}), {} output tokens by usage and {} received (asked {}), "
        "finish reason \"{}\"",
        s.sequence, count_text(s.prompt_tokens), e.job.isl, count_text(s.completion_tokens),
        count_text(s.received_tokens), e.job.osl, s.finish_reason);
  }
  if (wrong == 0 && !e.samples.empty())
    return passed(rule::judge_lengths,
                  fmt::format("all {} requests had exactly {} prompt and {} output tokens{}", e.samples.size(),
                              e.job.isl, e.job.osl, by_counter ? ", by usage and by the engine's counter" : ""));
  return failed(rule::judge_lengths,
                fmt::format("{} of {} requests did not have the exact lengths{}", wrong, e.samples.size(), first));
}

// Windows further from `length` than their tolerance allows.
int64_t windows_outside(const Evidence& e, double length) {
  return std::count_if(e.windows.begin(), e.windows.end(), [&](const Window& w) {
    return std::abs(w.length - length) > half_width(tolerance_of_window(w.accepted.has_value()), length, w.draws);
  });
}

std::string found_text(const Evidence& e) {
  const Realised& realised = *e.acceptance;
  switch (realised.from) {
    case AcceptanceFrom::kCounters:
      return fmt::format("realised acceptance length {:.3f} over {} verification steps", realised.length,
                         realised.steps.value_or(0));
    case AcceptanceFrom::kLogWindows:
      return fmt::format("realised acceptance length {:.3f} over {} windows of the log", realised.length,
                         e.windows.size());
    case AcceptanceFrom::kSinceStart:
      break;
  }
  return fmt::format("realised acceptance length {:.3f} since the engine's start, warm-up included", realised.length);
}

// "asked 5.7 +- 0.071 (3.3 standard deviations of 450 draws, one for each step of a request)"
std::string asked_text(const Evidence& e, double asked, double width) {
  const Tolerance& tolerance = tolerance_of(e.acceptance->from);
  std::string text = fmt::format("asked {} +- {:.3f}", asked, width);
  if (e.acceptance->draws > 0 && width > tolerance.least + 1e-6)
    return text + fmt::format(" ({} standard deviations of {} draws, one for each step of {})", tolerance.deviations,
                              e.acceptance->draws, e.draws_per_step ? "the batch" : "a request");
  return text;
}

Condition acceptance(const Evidence& e) {
  constexpr RuleId kRule = rule::judge_acceptance;
  if (e.job.num_draft_tokens == 0) return not_applicable(kRule, "the entry uses no speculative decoding");
  if (!e.acceptance) {
    std::string text = "the engine reported no verification steps, so the realised acceptance length is unknown";
    if (!e.counted.problem.empty()) text += "; " + e.counted.problem;
    if (e.log && !e.log->problem.empty()) text += "; " + e.log->problem;
    return failed(kRule, std::move(text));
  }
  const std::string found = found_text(e);
  if (!e.job.acceptance.length) return passed(kRule, found + "; measured, so there is no value to meet");
  const double asked = *e.job.acceptance.length;
  const double width = *acceptance_tolerance(*e.acceptance, asked);
  const std::string against = asked_text(e, asked, width);
  if (std::abs(e.acceptance->length - asked) > width) return failed(kRule, fmt::format("{}, {}", found, against));
  const int64_t outside = windows_outside(e, asked);
  if (outside != 0)
    return failed(kRule, fmt::format("{}, but {} of {} decode windows are further from {} than chance allows", found,
                                     outside, e.windows.size(), asked));
  return passed(kRule, fmt::format("{}, {}", found, against));
}

Condition dead_draft(const Evidence& e) {
  if (e.job.num_draft_tokens == 0)
    return not_applicable(rule::judge_dead_draft, "the entry uses no speculative decoding");
  const auto length = e.acceptance ? std::optional(e.acceptance->length) : std::nullopt;
  return draft_alive({.drafted = e.counted.drafted ? e.counted.drafted : e.counted.steps,
                      .accepted = e.counted.accepted,
                      .length = length},
                     {.length = e.job.acceptance.length});
}

int64_t received_tokens(const Evidence& e) {
  int64_t received = 0;
  for (const sample::Sample& s : e.samples) received += s.received_tokens.value_or(s.completion_tokens.value_or(0));
  return received;
}

Condition counters(const Evidence& e) {
  constexpr RuleId kRule = rule::judge_counters;
  if (!e.counted.problem.empty()) return failed(kRule, e.counted.problem);
  const int64_t received = received_tokens(e);
  if (e.job.num_draft_tokens != 0 && e.counted.steps && e.counted.accepted) {
    // Each request's first token comes from its prefill; its last step may commit up to `num_draft_tokens` tokens more
    // than max_tokens lets through.
    const auto requests_count = static_cast<int64_t>(e.samples.size());
    const int64_t least = received - requests_count;
    const int64_t most = least + requests_count * e.job.num_draft_tokens;
    const int64_t counted = *e.counted.steps + *e.counted.accepted;
    return decided(
        kRule, counted >= least && counted <= most,
        fmt::format("counters account for {} tokens; these requests explain {} to {}", counted, least, most));
  }
  if (e.counted.generated_tokens)
    return decided(kRule, *e.counted.generated_tokens == received,
                   fmt::format("the engine counted {} generated tokens; these requests received {}",
                               *e.counted.generated_tokens, received));
  if (e.job.num_draft_tokens == 0) return not_applicable(kRule, "the entry uses no speculative decoding");
  return failed(kRule, "the engine's counters could not be read");
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

// Of a reference like "name:tag@sha256:...".
std::string_view digest_of(std::string_view image) {
  const size_t at = image.find('@');
  return at == std::string_view::npos ? std::string_view() : image.substr(at + 1);
}

Condition image(const Evidence& e) {
  constexpr RuleId kRule = rule::judge_image;
  if (e.job.image.empty() || e.job.gpus == 0 || e.job.framework == "embedded")
    return not_applicable(kRule, "the engine runs from this build, without an image");
  if (!e.job.image_pinned)
    return failed(kRule, fmt::format("the entry's image {} is not pinned by digest", e.job.image));
  if (e.image_digest.empty())
    return failed(kRule, fmt::format("the running image's digest was not read back; the entry pins {}", e.job.image));
  return decided(kRule, e.image_digest == digest_of(e.job.image),
                 fmt::format("the running image is {}, the entry pins {}", e.image_digest, e.job.image));
}

// By usage of each reply, by the engine's counter, and by its log, where each is known.
Condition prefix_cache(const Evidence& e) {
  constexpr RuleId kRule = rule::judge_prefix_cache;
  std::optional<int64_t> by_usage;
  for (const sample::Sample& s : e.samples)
    if (s.cached_tokens) by_usage = by_usage.value_or(0) + *s.cached_tokens;
  const auto by_log = e.log ? e.log->cached_tokens : std::nullopt;
  std::string text;
  bool cold = true;
  const auto asked = static_cast<double>(e.job.isl) * static_cast<double>(e.samples.size());
  for (const auto& [count, source] :
       {std::pair(by_usage, "usage"), {e.counted.cached_tokens, "the engine's counter"}, {by_log, "its log"}}) {
    if (!count) continue;
    cold = cold && static_cast<double>(*count) <= kCacheHitsLive * asked;
    text += fmt::format("{}{} by {}", text.empty() ? "" : ", ", *count, source);
  }
  if (text.empty())
    return failed(kRule, "neither usage nor counters nor log tell whether prompt tokens came from a prefix cache");
  return decided(kRule, cold, "prompt tokens from a prefix cache: " + text);
}

Condition jit(const Evidence& e) {
  constexpr RuleId kRule = rule::judge_jit;
  if (e.log && e.log->problem.empty() && (e.compiles_at_run_time || e.log->compile_lines != 0))
    return nothing_compiled(e.log->compile_lines, e.log->first_compile_line);
  if (!e.compiles_at_run_time) return passed(kRule, "the engine compiles nothing at run time");
  return failed(kRule, fmt::format("whether the engine compiled kernels inside the window was not determined{}",
                                   e.log ? ": " + e.log->problem : std::string()));
}

Condition engine_log(const Evidence& e) {
  constexpr RuleId kRule = rule::judge_engine_log;
  if (!e.log) return not_applicable(kRule, "the engine's log is not at hand");
  if (!e.log->problem.empty()) return failed(kRule, e.log->problem);
  if (e.log->error_lines == 0) return passed(kRule, "no line tells of an error inside the measured interval");
  return failed(kRule, fmt::format("{} {} of an error inside the measured interval; {}", e.log->error_lines,
                                   e.log->error_lines == 1 ? "line tells" : "lines tell", e.log->worst_error_line));
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

Realised Realised::counted(int64_t steps, int64_t accepted) {
  return {.from = AcceptanceFrom::kCounters,
          .length = 1.0 + static_cast<double>(accepted) / static_cast<double>(steps),
          .steps = steps,
          .accepted = accepted,
          .draws = steps};
}

Window Window::counted(int64_t steps, int64_t accepted) {
  return {.length = 1.0 + static_cast<double>(accepted) / static_cast<double>(steps),
          .steps = steps,
          .accepted = accepted,
          .draws = steps};
}

std::optional<double> acceptance_tolerance(const Realised& realised, const std::optional<double>& asked) {
  if (!asked) return std::nullopt;
  return half_width(tolerance_of(realised.from), *asked, realised.draws);
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
  return {{sample_count(e), requests(e), lengths(e), acceptance(e), dead_draft(e), counters(e), prefix_cache(e),
           weights(e), kernels(e), image(e), jit(e), engine_log(e), exclusive(e), power(e)}};
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
