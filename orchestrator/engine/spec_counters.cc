#include "orchestrator/engine/spec_counters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "orchestrator/diag/rules/engine.h"

namespace sweep::engine {

namespace {

constexpr double kLargestCount = 9007199254740992.0;  // 2^53: below it every whole number is exact

constexpr std::array<CounterNames, 5> kNames{{
    {.engine = "vllm",
     .prefix = "vllm:",
     .drafts = "vllm:spec_decode_num_drafts_total",
     .draft_tokens = "vllm:spec_decode_num_draft_tokens_total",
     .accepted = "vllm:spec_decode_num_accepted_tokens_total",
     .accepted_per_position = "vllm:spec_decode_num_accepted_tokens_per_pos_total",
     .steps_by_accepted = "",
     .prompt_tokens = "vllm:prompt_tokens_total",
     .generation_tokens = "vllm:generation_tokens_total",
     .requests = "vllm:request_success_total",
     .cache_queried = "vllm:prefix_cache_queries_total",
     .cache_hits = "vllm:prefix_cache_hits_total",
     .more_cache_hits = "",
     .acceptance_gauge = ""},
    // Accepted drafts are not counted. The gauge is of the last decode log window.
    {.engine = "sglang",
     .prefix = "sglang:",
     .drafts = "sglang:spec_verify_calls_total",
     .draft_tokens = "",
     .accepted = "",
     .accepted_per_position = "",
     .steps_by_accepted = "",
     .prompt_tokens = "sglang:prompt_tokens_total",
     .generation_tokens = "sglang:generation_tokens_total",
     .requests = "sglang:num_requests_total",
     .cache_queried = "",
     .cache_hits = "sglang:cached_tokens_total",
     .more_cache_hits = "",
     .acceptance_gauge = "sglang:spec_accept_length"},
    // Its page of this format counts requests and times; acceptance is in the JSON of /metrics.
    {.engine = "trtllm",
     .prefix = "trtllm_",
     .drafts = "",
     .draft_tokens = "",
     .accepted = "",
     .accepted_per_position = "",
     .steps_by_accepted = "",
     .prompt_tokens = "",
     .generation_tokens = "",
     .requests = "trtllm_request_success_total",
     .cache_queried = "",
     .cache_hits = "",
     .more_cache_hits = "",
     .acceptance_gauge = ""},
    {.engine = "atom",
     .prefix = "atom:",
     .drafts = "",
     .draft_tokens = "atom:mtp_draft_tokens_total",
     .accepted = "atom:mtp_accepted_tokens_total",
     .accepted_per_position = "",
     .steps_by_accepted = "atom:mtp_decode_steps_total",
     .prompt_tokens = "atom:prompt_tokens_total",
     .generation_tokens = "atom:generation_tokens_total",
     .requests = "atom:requests_finished_total",
     .cache_queried = "atom:prefix_cache_full_tokens_total",
     .cache_hits = "atom:prefix_cache_cached_tokens_total",
     .more_cache_hits = "atom:prefix_cache_offload_tokens_total",
     .acceptance_gauge = "atom:mtp_average_tokens_per_forward"},
    {.engine = "embedded",
     .prefix = "embedded:",
     .drafts = "embedded:spec_decode_num_drafts_total",
     .draft_tokens = "embedded:spec_decode_num_draft_tokens_total",
     .accepted = "embedded:spec_decode_num_accepted_tokens_total",
     .accepted_per_position = "embedded:spec_decode_num_accepted_tokens_per_pos_total",
     .steps_by_accepted = "",
     .prompt_tokens = "embedded:prompt_tokens_total",
     .generation_tokens = "embedded:generation_tokens_total",
     .requests = "embedded:request_success_total",
     .cache_queried = "embedded:prefix_cache_queries_total",
     .cache_hits = "embedded:prefix_cache_hits_total",
     .more_cache_hits = "",
     .acceptance_gauge = ""},
}};

// How far a series rose; its own value where there is no reading before.
using Rise = std::function<diag::Result<int64_t>(const Series&)>;

base::Unexpected<diag::Diagnostic> malformed(const std::string& file, uint32_t line, std::string message) {
  return diag::fail(diag::make_at(diag::rule::engine_malformed_metrics, {.file = file, .line = line},
                                  std::move(message), "record the page again, whole, as the engine sends it"));
}

diag::Result<int64_t> count_of(const MetricsPage& page, const Series& series) {
  const MetricType type = page.type_of(series.name);
  if (type != MetricType::kCounter && type != MetricType::kUntyped)
    return malformed(page.file, series.line, fmt::format("\"{}\" is declared to be no counter", series.name));
  // The comparison is false for NaN.
  if (!(series.value >= 0 && series.value <= kLargestCount) || series.value != std::floor(series.value))
    return malformed(page.file, series.line,
                     fmt::format("\"{}\" is {}, which counts nothing", series.name, series.value));
  return static_cast<int64_t>(series.value);
}

std::optional<size_t> position_in(std::string_view text) {
  size_t position = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), position);
  if (error != std::errc() || end != text.data() + text.size() || position >= kMostPositions) return std::nullopt;
  return position;
}

void add(std::optional<int64_t>& sum, int64_t count) {
  sum = sum.value_or(0) + count;
}

// Adds `count` steps that accepted so many drafts.
void add_steps(SpecCounters& counters, size_t accepted, int64_t count) {
  add(counters.drafts, count);
  if (counters.accepted_per_position.size() < accepted) counters.accepted_per_position.resize(accepted);
  for (size_t position = 0; position < accepted; ++position) counters.accepted_per_position[position] += count;
}

// Adds one series where it belongs. Its label must be a number where there is one.
diag::Result<base::Done> add_series(const MetricsPage& page, const Series& series, const CounterNames& names,
                                    const Rise& rise, SpecCounters& counters) {
  const std::array<std::pair<std::string_view, std::optional<int64_t>*>, 8> sums{
      {{names.drafts, &counters.drafts},
       {names.draft_tokens, &counters.draft_tokens},
       {names.accepted, &counters.accepted},
       {names.prompt_tokens, &counters.prompt_tokens},
       {names.generation_tokens, &counters.generation_tokens},
       {names.requests, &counters.requests},
       {names.cache_queried, &counters.cache_queried},
       {names.cache_hits, &counters.cache_hits}}};
  const bool by_position = series.name == names.accepted_per_position;
  const bool by_accepted = series.name == names.steps_by_accepted;
  std::optional<int64_t>* sum = series.name == names.more_cache_hits ? &counters.cache_hits : nullptr;
  for (const auto& [name, target] : sums)
    if (series.name == name) sum = target;
  if (sum == nullptr && !by_position && !by_accepted) return base::Done{};
  const auto count = rise(series);
  if (!count) return diag::fail(count.error());
  if (sum != nullptr) {
    add(*sum, *count);
    return base::Done{};
  }
  const auto position = position_in(series.label(by_position ? "position" : "accepted_tokens"));
  if (!position)
    return malformed(page.file, series.line,
                     fmt::format("\"{}\" has no label \"{}\" from 0 to {}", series.name,
                                 by_position ? "position" : "accepted_tokens", kMostPositions - 1));
  if (by_accepted) {
    add_steps(counters, *position, *count);
  } else {
    if (counters.accepted_per_position.size() <= *position) counters.accepted_per_position.resize(*position + 1);
    counters.accepted_per_position[*position] += *count;
  }
  return base::Done{};
}

diag::Result<SpecCounters> sum_up(const MetricsPage& page, const CounterNames& names, const Rise& rise) {
  SpecCounters counters;
  for (const Series& series : page.series)
    if (const auto added = add_series(page, series, names, rise, counters); !added) return diag::fail(added.error());
  return counters;
}

bool is_used(const Series& series, const CounterNames& names) {
  for (const std::string_view name : {names.drafts, names.draft_tokens, names.accepted, names.accepted_per_position,
                                      names.steps_by_accepted, names.prompt_tokens, names.generation_tokens,
                                      names.requests, names.cache_queried, names.cache_hits, names.more_cache_hits})
    if (series.name == name) return true;
  return false;
}

std::string key_of(const Series& series) {
  std::string key = series.name;
  for (const Label& label : series.labels) key += fmt::format("\1{}\1{}", label.name, label.value);
  return key;
}

std::string shown(const Series& series) {
  std::string text = series.name + "{";
  for (const Label& label : series.labels)
    text += fmt::format("{}{}=\"{}\"", text.ends_with('{') ? "" : ",", label.name, label.value);
  return text + "}";
}

void report_reset(const MetricsPage& page, uint32_t line, std::string message, diag::Diagnostics& diagnostics) {
  diagnostics.add(diag::make_at(diag::rule::engine_counter_reset, {.file = page.file, .line = line}, std::move(message),
                                "read the counters again around a window in which the engine keeps running"));
}

}  // namespace

std::optional<double> SpecCounters::acceptance_length() const {
  if (!drafts || !accepted || *drafts <= 0) return std::nullopt;
  return 1.0 + static_cast<double>(*accepted) / static_cast<double>(*drafts);
}

std::optional<double> SpecCounters::draft_token_acceptance() const {
  if (!draft_tokens || !accepted || *draft_tokens <= 0) return std::nullopt;
  return static_cast<double>(*accepted) / static_cast<double>(*draft_tokens);
}

std::vector<double> SpecCounters::per_position() const {
  std::vector<double> rates;
  if (!drafts || *drafts <= 0) return rates;
  for (const int64_t count : accepted_per_position)
    rates.push_back(static_cast<double>(count) / static_cast<double>(*drafts));
  return rates;
}

std::optional<double> SpecCounters::cache_hit_rate() const {
  const auto& looked_up = cache_queried ? cache_queried : prompt_tokens;
  if (!cache_hits || !looked_up || *looked_up <= 0) return std::nullopt;
  return static_cast<double>(*cache_hits) / static_cast<double>(*looked_up);
}

std::span<const CounterNames> counter_names() {
  return kNames;
}

const CounterNames* find_counter_names(std::string_view engine) {
  for (const CounterNames& names : kNames)
    if (names.engine == engine) return &names;
  return nullptr;
}

diag::Result<SpecCounters> spec_counters(const MetricsPage& page, const CounterNames& names) {
  return sum_up(page, names, [&](const Series& series) { return count_of(page, series); });
}

diag::Result<SpecCounters> counted_between(const MetricsPage& before, const MetricsPage& after,
                                           const CounterNames& names, diag::Diagnostics& diagnostics) {
  std::map<std::string, const Series*> first;
  for (const Series& series : before.series)
    if (is_used(series, names)) first.emplace(key_of(series), &series);
  auto counters = sum_up(after, names, [&](const Series& series) -> diag::Result<int64_t> {
    const auto value = count_of(after, series);
    const auto earlier = first.find(key_of(series));
    if (!value || earlier == first.end()) return value;
    const auto start = count_of(before, *earlier->second);
    first.erase(earlier);
    if (!start) return start;
    if (*value < *start)
      report_reset(after, series.line, fmt::format("{} fell from {} to {}", shown(series), *start, *value),
                   diagnostics);
    return *value - *start;
  });
  for (const auto& [key, series] : first)
    report_reset(before, series->line, fmt::format("{} is not in \"{}\" any more", shown(*series), after.file),
                 diagnostics);
  return counters;
}

}  // namespace sweep::engine
