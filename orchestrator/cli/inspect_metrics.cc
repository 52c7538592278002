#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <utility>

#include "orchestrator/cli/inspection.h"
#include "orchestrator/diag/rules/engine.h"
#include "orchestrator/engine/json_stats.h"
#include "orchestrator/engine/spec_counters.h"
#include "orchestrator/judge/recorded.h"

namespace sweep::cli {

namespace {

using engine::SpecCounters;

struct MetricsOptions {
  std::string before;
  std::string after;
  std::string engine;
  std::optional<double> target;
  std::optional<double> within;
};

// Counted between the readings, and in the second one since the engine started.
struct Counted {
  SpecCounters between;
  SpecCounters since_start;
  std::optional<double> gauge;  // an acceptance length that the engine computed itself
  diag::Diagnostics findings;
};

bool knows_nothing(const SpecCounters& counters) {
  return !counters.drafts && !counters.draft_tokens && !counters.prompt_tokens && !counters.cache_queried &&
         !counters.cache_hits && !counters.requests;
}

// Which engine's page it is, for a message; empty if none of ours.
std::string_view engine_of(const engine::MetricsPage& page) {
  for (const engine::CounterNames& names : engine::counter_names())
    for (const engine::Series& series : page.series)
      if (series.name.starts_with(names.prefix)) return names.engine;
  return {};
}

diag::Result<Counted> count_pages(const MetricsOptions& options, std::string_view before, std::string_view after) {
  const engine::CounterNames& names = *engine::find_counter_names(options.engine);
  const auto first = engine::parse_metrics(before, options.before);
  if (!first) return diag::fail(first.error());
  const auto second = engine::parse_metrics(after, options.after);
  if (!second) return diag::fail(second.error());
  Counted counted;
  auto between = engine::counted_between(*first, *second, names, counted.findings);
  if (!between) return diag::fail(std::move(between).error());
  auto all = engine::spec_counters(*second, names);
  if (!all) return diag::fail(std::move(all).error());
  counted.between = std::move(*between);
  counted.since_start = std::move(*all);
  for (const engine::Series& series : second->series)
    if (series.name == names.acceptance_gauge) counted.gauge = series.value;
  if (knows_nothing(counted.between) && !counted.gauge) {
    const std::string_view other = engine_of(*second);
    return diag::fail(diag::make_at(diag::rule::engine_malformed_metrics, {.file = options.after, .line = 1},
                                    fmt::format("the page has none of the counters of \"{}\"", options.engine),
                                    other.empty() || other == options.engine
                                        ? "switch the engine's metrics on"
                                        : fmt::format("it holds those of another: --engine {}", other)));
  }
  return counted;
}

diag::Result<Counted> count_documents(const MetricsOptions& options, std::string_view before, std::string_view after) {
  const auto first = engine::parse_json_stats(before, options.engine, options.before);
  if (!first) return diag::fail(first.error());
  const auto second = engine::parse_json_stats(after, options.engine, options.after);
  if (!second) return diag::fail(second.error());
  Counted counted;
  auto between = engine::counted_between(*first, *second, options.after, counted.findings);
  if (!between) return diag::fail(std::move(between).error());
  counted.between = std::move(*between);
  counted.since_start = second->counters;
  if (!second->mean_lengths.empty()) counted.gauge = second->mean_lengths.front();
  return counted;
}

diag::Result<Counted> count(const MetricsOptions& options) {
  const auto before = read_capture(options.before, engine::kMostJsonStatsBytes);
  if (!before) return diag::fail(before.error());
  const auto after = read_capture(options.after, engine::kMostJsonStatsBytes);
  if (!after) return diag::fail(after.error());
  const bool documents = engine::looks_like_json_stats(*after, options.engine);
  if (documents != engine::looks_like_json_stats(*before, options.engine))
    return diag::fail(
        diag::make_at(diag::rule::engine_malformed_metrics, {.file = options.before, .line = 1},
                      fmt::format("\"{}\" and \"{}\" are of different formats", options.before, options.after)));
  auto counted = documents ? count_documents(options, *before, *after) : count_pages(options, *before, *after);
  if (!counted) return counted;
  const SpecCounters& c = counted->between;
  if (c.accepted && c.draft_tokens && *c.accepted > *c.draft_tokens && counted->findings.empty())
    return diag::fail(
        diag::make_at(diag::rule::engine_malformed_metrics, {.file = options.after},
                      fmt::format("{} draft tokens were accepted, but only {} drafted", *c.accepted, *c.draft_tokens)));
  if (!c.drafts || !c.accepted)
    counted->findings.add(diag::make_at(
        diag::rule::engine_no_counters, {.file = options.after},
        fmt::format("\"{}\" has no counters of {} here, so the acceptance length of the window is unknown",
                    options.engine, c.drafts ? "accepted drafts" : "verification steps"),
        options.engine == "sglang" ? "read it from the log: `sweepctl inspect decode-log`" : ""));
  if (counted->findings.has_errors()) counted->between = SpecCounters{};  // differences over a restart mean nothing
  return counted;
}

// Generated tokens per step, where accepted drafts are not counted: each request's first token is of its prefill, and
// max_tokens cuts its last step, so it reads a little low.
std::optional<double> estimated_length(const SpecCounters& c) {
  if (c.accepted || !c.drafts || *c.drafts <= 0 || !c.generation_tokens || !c.requests) return std::nullopt;
  return static_cast<double>(*c.generation_tokens - *c.requests) / static_cast<double>(*c.drafts);
}

void describe(const MetricsOptions& options, const Counted& counted, Inspection& inspection) {
  const SpecCounters& c = counted.between;
  const auto looked_up = c.cache_queried ? c.cache_queried : c.prompt_tokens;
  inspection.document = {{"engine", options.engine},
                         {"files", {options.before, options.after}},
                         {"drafts", optional_json(c.drafts)},
                         {"draft_tokens", optional_json(c.draft_tokens)},
                         {"accepted", optional_json(c.accepted)},
                         {"acceptance_length", optional_json(c.acceptance_length())},
                         {"acceptance_length_estimate", optional_json(estimated_length(c))},
                         {"acceptance_length_gauge", optional_json(counted.gauge)},
                         {"per_position", c.per_position()},
                         {"draft_token_acceptance", optional_json(c.draft_token_acceptance())},
                         {"wrong_if_no_difference", optional_json(counted.since_start.acceptance_length())},
                         {"target", optional_json(options.target)},
                         {"within", options.within.value_or(judge::recorded_within())},
                         {"prompt_tokens", optional_json(c.prompt_tokens)},
                         {"generation_tokens", optional_json(c.generation_tokens)},
                         {"requests", optional_json(c.requests)},
                         {"cached_prompt_tokens", optional_json(c.cache_hits)},
                         {"hit_rate", optional_json(c.cache_hit_rate())},
                         {"limit", judge::kCacheHitsRecorded}};
  std::string positions;
  for (const double rate : c.per_position()) positions += fmt::format("{}{:.4f}", positions.empty() ? "" : " ", rate);
  inspection.table = {
      {"verification steps", shown(c.drafts), "of single requests, summed over engines"},
      {"draft tokens", shown(c.draft_tokens), ""},
      {"accepted", shown(c.accepted), "draft tokens"},
      {"acceptance length", shown(c.acceptance_length(), 4), "1 + accepted / steps, the target's own token included"},
      {"draft token acceptance", shown(c.draft_token_acceptance(), 4), "accepted / draft tokens"},
      {"without difference", shown(counted.since_start.acceptance_length(), 4),
       "the second reading alone: wrong, it holds the warm-up"},
      {"prompt tokens", shown(c.prompt_tokens), ""},
      {"generated tokens", shown(c.generation_tokens), ""},
      {"prefix cache hits", shown(c.cache_hits), fmt::format("of {} prompt tokens", shown(looked_up))},
      {"hit rate", shown(c.cache_hit_rate(), 4), fmt::format("limit {}", judge::kCacheHitsRecorded)}};
  if (!positions.empty()) inspection.remarks.push_back("accepted per position: " + positions);
  if (counted.gauge)
    inspection.remarks.push_back(
        fmt::format("the engine's own acceptance length is {:.3f}: of its last window or since "
                    "its start, not of the time between the readings",
                    *counted.gauge));
  if (const auto estimate = estimated_length(c))
    inspection.remarks.push_back(
        fmt::format("generated tokens per verification step: {:.3f}, up to 2 % low", *estimate));
}

ExitCode inspect_metrics(const Context& context, const MetricsOptions& options) {
  auto counted = count(options);
  if (!counted) return refuse(context, "metrics", counted.error());
  const SpecCounters& c = counted->between;
  Inspection inspection{.kind = "metrics", .file = options.after};
  describe(options, *counted, inspection);
  inspection.findings = counted->findings;
  const judge::AskedAcceptance asked{.length = options.target,
                                     .within = options.within.value_or(judge::recorded_within()),
                                     .exactly = options.within.has_value()};
  auto& conditions = inspection.verdict.conditions;
  if (c.acceptance_length() || options.target)
    conditions.push_back(judge::acceptance_near(
        {.length = c.acceptance_length(), .weighted = true, .windows = {}, .draws = c.drafts.value_or(0)}, asked));
  conditions.push_back(judge::draft_alive(
      {.drafted = c.draft_tokens ? c.draft_tokens : c.drafts, .accepted = c.accepted, .length = std::nullopt}, asked));
  conditions.push_back(judge::cache_cold(c.cache_hits, c.cache_queried ? c.cache_queried : c.prompt_tokens));
  return conclude(context, std::move(inspection));
}

}  // namespace

void add_inspect_metrics(CLI::App& inspect_command, Action& action) {
  auto options = std::make_shared<MetricsOptions>();
  CLI::App* command = inspect_command.add_subcommand(
      "metrics", "Two readings of an engine's counters: acceptance length and prefix-cache hits in between");
  command->add_option("before", options->before, "The page as it was when the measured requests began")
      ->required()
      ->type_name("BEFORE");
  command->add_option("after", options->after, "The page as it was when they had ended")
      ->required()
      ->type_name("AFTER");
  command->add_option("--engine", options->engine, "Whose page it is")
      ->required()
      ->check(CLI::IsMember({"vllm", "sglang", "trtllm", "atom", "embedded"}).description(""))
      ->type_name("vllm|sglang|trtllm|atom|embedded");
  command->add_option("--target", options->target, "The acceptance length that was asked for")
      ->check(CLI::Range(1.0, 65.0).description(""))
      ->type_name("AL");
  command
      ->add_option("--within", options->within,
                   "How far from it the realised one may be; by default 0.1, or more where chance alone explains more")
      ->check(CLI::Range(0.0, 64.0).description(""))
      ->type_name("X");
  command->footer(
      "Prometheus text, or the JSON of /metrics (trtllm), /debug/mtp_stats (atom) and /server_info (sglang). Counters "
      "are\n"
      "compared series by series and then summed, so that what was counted before the first reading does not enter.");
  command->callback(
      [options, &action] { action = [options](Context& context) { return inspect_metrics(context, *options); }; });
}

}  // namespace sweep::cli
