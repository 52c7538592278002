#include "orchestrator/engine/readback.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "orchestrator/base/file.h"
#include "orchestrator/base/json_fields.h"
#include "orchestrator/diag/rules/engine.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/engine/json_stats.h"
#include "orchestrator/http/client.h"
#include "orchestrator/http/request.h"
#include "orchestrator/http/secret.h"

namespace sweep::engine {

namespace {

namespace rule = diag::rule;
using nlohmann::json;

constexpr http::Timeouts kOfOneReading{.connect = std::chrono::seconds(2), .total = std::chrono::seconds(20)};

std::string fetch(const ServerAddress& server, std::string_view path, uint64_t most, const std::stop_token& stop,
                  Reading& reading, diag::Diagnostics& diagnostics) {
  if (path.empty()) return {};
  const std::string url = server.base_url + std::string(path);
  if (server.until && server.until->passed()) {
    diagnostics.add(diag::make(rule::engine_no_counters,
                               fmt::format("{} was not asked: no time was left after earlier questions", url)));
    return {};
  }
  auto reply = http::get({.url = url,
                          .credentials = http::credentials(server.access),
                          .timeouts = within(kOfOneReading, server),
                          .max_bytes = most,
                          .ca_file = server.access.ca_file},
                         stop);
  reading.is_reachable = reading.is_reachable || reply.has_value();
  if (reply && reply->head.status == http::status::kOk)
    return http::without_secret(std::move(reply->body), server.access.bearer_token);
  diagnostics.add(
      diag::make(rule::engine_no_counters,
                 reply ? fmt::format("{} answers with status {}", url, reply->head.status) : reply.error().message,
                 "switch the engine's metrics on"));
  return {};
}

// Counters fell: what was counted before is lost.
std::string first_error(const diag::Diagnostics& diagnostics) {
  for (const diag::Diagnostic& d : diagnostics.items())
    if (d.severity == diag::Severity::kError) return d.message;
  return {};
}

void take_missing(SpecCounters& into, const SpecCounters& from) {
  const auto take = [](auto& to, const auto& other) {
    if (!to) to = other;
  };
  take(into.drafts, from.drafts);
  take(into.draft_tokens, from.draft_tokens);
  take(into.accepted, from.accepted);
  take(into.prompt_tokens, from.prompt_tokens);
  take(into.generation_tokens, from.generation_tokens);
  take(into.requests, from.requests);
  take(into.cache_queried, from.cache_queried);
  take(into.cache_hits, from.cache_hits);
  if (into.accepted_per_position.empty()) into.accepted_per_position = from.accepted_per_position;
}

diag::Result<SpecCounters> between_pages(const Framework& framework, const Reading& before, const Reading& after,
                                         diag::Diagnostics& diagnostics) {
  const CounterNames* names = find_counter_names(framework.name);
  if (names == nullptr || before.counters.empty() || after.counters.empty()) return SpecCounters{};
  const auto first = parse_metrics(before.counters, fmt::format("{} before", framework.endpoints.counters));
  if (!first) return diag::fail(first.error());
  const auto second = parse_metrics(after.counters, fmt::format("{} after", framework.endpoints.counters));
  if (!second) return diag::fail(second.error());
  return counted_between(*first, *second, *names, diagnostics);
}

diag::Result<SpecCounters> between_documents(const Framework& framework, const Reading& before, const Reading& after,
                                             ReadBack& read_back, diag::Diagnostics& diagnostics) {
  if (before.statistics.empty() || after.statistics.empty()) return SpecCounters{};
  const std::string place = fmt::format("{} after", framework.endpoints.statistics);
  const auto first =
      parse_json_stats(before.statistics, framework.name, fmt::format("{} before", framework.endpoints.statistics));
  if (!first) return diag::fail(first.error());
  const auto second = parse_json_stats(after.statistics, framework.name, place);
  if (!second) return diag::fail(second.error());
  if (!second->mean_lengths.empty()) {
    double sum = 0;
    for (const double length : second->mean_lengths) sum += length;
    read_back.mean_since_start = sum / static_cast<double>(second->mean_lengths.size());
  }
  return counted_between(*first, *second, place, diagnostics);
}

json number(const std::optional<int64_t>& value) {
  return value ? json(*value) : json(nullptr);
}

json lines_json(const LogLines& lines) {
  constexpr size_t kMostKept = 20;
  json list = json::array();
  for (size_t i = 0; i < std::min(lines.first.size(), kMostKept); ++i)
    list.push_back({{"line", lines.first[i].line}, {"text", lines.first[i].text}});
  return {{"count", lines.count}, {"first", std::move(list)}};
}

// A count that this program wrote, whether it has been through a file or not.
bool is_written_count(const json& value) {
  return value.is_number_integer() && value.get<int64_t>() >= 0;
}

std::optional<int64_t> written_count(const json& object, const char* name) {
  const json* value = base::member(object, name);
  return value != nullptr && is_written_count(*value) ? std::optional(value->get<int64_t>()) : std::nullopt;
}

base::Unexpected<diag::Diagnostic> malformed(std::string_view what) {
  return diag::fail(rule::file_malformed, fmt::format("{} in measurement.json cannot be understood", what));
}

}  // namespace

Reading take_reading(const Framework& framework, const ServerAddress& server, const std::stop_token& stop,
                     diag::Diagnostics& diagnostics) {
  Reading reading;
  const Endpoints& at = framework.endpoints;
  reading.counters = fetch(server, at.counters, kMostMetricsBytes, stop, reading, diagnostics);
  reading.statistics = fetch(server, at.statistics, kMostJsonStatsBytes, stop, reading, diagnostics);
  return reading;
}

namespace {

// Two lists of records as one.
std::string joined(const std::string& first, const std::string& second) {
  const size_t end = first.rfind(']');
  const size_t begin = second.find('[');
  if (end == std::string::npos || begin == std::string::npos) return second;
  const bool is_empty = first.find('{') == std::string::npos || second.find('{') == std::string::npos;
  return first.substr(0, end) + (is_empty ? "" : ",") + second.substr(begin + 1);
}

}  // namespace

void read_again(const Framework& framework, const ServerAddress& server, const std::stop_token& stop,
                Reading& reading) {
  diag::Diagnostics ignored;  // the first reading has said what does not answer
  Reading later = take_reading(framework, server, stop, ignored);
  if (!later.counters.empty()) reading.counters = std::move(later.counters);
  if (later.statistics.empty()) return;
  reading.statistics = framework.endpoints.drained ? joined(reading.statistics, later.statistics) : later.statistics;
}

bool is_complete(const Framework& framework, const Reading& before, const Reading& after, const ServedTokens& served) {
  const ReadBack read_back = counted_between(framework, before, after);
  const SpecCounters& counted = read_back.counted;
  if (!read_back.problem.empty()) return true;
  if (counted.drafts.value_or(0) > 0 && counted.accepted &&
      *counted.drafts + *counted.accepted < served.tokens - served.requests)
    return false;
  return !counted.generation_tokens || *counted.generation_tokens >= served.tokens;
}

ReadBack counted_between(const Framework& framework, const Reading& before, const Reading& after) {
  ReadBack read_back;
  diag::Diagnostics diagnostics;
  auto documents = between_documents(framework, before, after, read_back, diagnostics);
  auto pages = between_pages(framework, before, after, diagnostics);
  if (documents) read_back.counted = std::move(*documents);
  if (pages) take_missing(read_back.counted, *pages);
  if (!documents) read_back.problem = documents.error().message;
  if (!pages) read_back.problem = pages.error().message;
  if (read_back.problem.empty()) read_back.problem = first_error(diagnostics);
  return read_back;
}

json to_json(const ReadBack& read_back) {
  const SpecCounters& c = read_back.counted;
  return {{"drafts", number(c.drafts)},
          {"draft_tokens", number(c.draft_tokens)},
          {"accepted", number(c.accepted)},
          {"accepted_per_position", c.accepted_per_position},
          {"prompt_tokens", number(c.prompt_tokens)},
          {"generation_tokens", number(c.generation_tokens)},
          {"requests", number(c.requests)},
          {"cache_queried", number(c.cache_queried)},
          {"cache_hits", number(c.cache_hits)},
          {"mean_since_start", read_back.mean_since_start ? json(*read_back.mean_since_start) : json(nullptr)},
          {"problem", read_back.problem.empty() ? json(nullptr) : json(read_back.problem)}};
}

diag::Result<ReadBack> read_back_from_json(const json& document) {
  if (!document.is_object()) return malformed("\"counted\"");
  ReadBack read_back{.counted = {.drafts = written_count(document, "drafts"),
                                 .draft_tokens = written_count(document, "draft_tokens"),
                                 .accepted = written_count(document, "accepted"),
                                 .accepted_per_position = {},
                                 .prompt_tokens = written_count(document, "prompt_tokens"),
                                 .generation_tokens = written_count(document, "generation_tokens"),
                                 .requests = written_count(document, "requests"),
                                 .cache_queried = written_count(document, "cache_queried"),
                                 .cache_hits = written_count(document, "cache_hits")},
                     .mean_since_start = std::nullopt,
                     .problem = {}};
  if (const json* positions = base::member(document, "accepted_per_position")) {
    if (!positions->is_array()) return malformed("\"accepted_per_position\"");
    for (const json& count : *positions) {
      if (!is_written_count(count)) return malformed("\"accepted_per_position\"");
      read_back.counted.accepted_per_position.push_back(count.get<int64_t>());
    }
  }
  if (const json* mean = base::member(document, "mean_since_start"); mean != nullptr && mean->is_number())
    read_back.mean_since_start = mean->get<double>();
  if (const json* problem = base::member(document, "problem"); problem != nullptr && problem->is_string())
    read_back.problem = problem->get<std::string>();
  return read_back;
}

WindowLog read_window_log(const Framework& framework, const std::filesystem::path& file, const LogSpan& span) {
  WindowLog result;
  const auto text = base::read_file(file, kMostLogBytes);
  if (!text) {
    result.problem = text.error().text();
    return result;
  }
  const LogSource source{.text = *text, .file = file.string(), .engine = std::string(framework.name)};
  const auto read = [&](const LogInterval& interval) {
    auto log = read_decode_log(source, interval);
    if (log) return std::move(*log);
    result.problem = log.error().message;
    return DecodeLog();
  };
  result.log = read({.from_byte = span.from_byte, .to_byte = span.to_byte});
  if (text->find("\"unix_ns_begin\"") == std::string::npos || !result.problem.empty()) return result;
  DecodeLog exact = read({.from = log_time_of_unix(span.from_unix_ns), .to = log_time_of_unix(span.to_unix_ns)});
  result.log.windows = std::move(exact.windows);
  result.log.windows_outside = exact.windows_outside;
  return result;
}

json to_json(const WindowLog& log) {
  json windows = json::array();
  for (const DecodeWindow& w : log.log.windows)
    windows.push_back({{"line", w.line},
                       {"begin_unix_ns", number(w.begin_ns)},
                       {"acceptance_length", w.acceptance_length},
                       {"steps", number(w.steps)},
                       {"accepted", number(w.accepted)},
                       {"per_position", w.per_position}});
  return {{"windows", std::move(windows)},
          {"windows_outside", log.log.windows_outside},
          {"steps_per_window", number(log.log.steps_per_window)},
          {"compile_lines", lines_json(log.log.compile_lines)},
          {"error_lines", lines_json(log.log.error_lines)},
          {"prompt_tokens_computed", number(log.log.new_tokens)},
          {"prompt_tokens_cached", number(log.log.cached_tokens)},
          {"problem", log.problem.empty() ? json(nullptr) : json(log.problem)}};
}

namespace {

diag::Result<LogLines> lines_from_json(const json& document, const char* name) {
  const json* lines = base::member(document, name);
  if (lines == nullptr) return malformed(fmt::format("\"{}\"", name));
  const auto count = written_count(*lines, "count");
  const json* first = base::member(*lines, "first");
  if (!count || first == nullptr || !first->is_array()) return malformed(fmt::format("\"{}\"", name));
  LogLines result{.first = {}, .count = static_cast<size_t>(*count)};
  for (const json& line : *first) {
    const json* text = base::member(line, "text");
    if (text == nullptr || !text->is_string()) return malformed(fmt::format("\"{}\"", name));
    result.first.push_back(
        {.line = static_cast<uint32_t>(written_count(line, "line").value_or(0)), .text = text->get<std::string>()});
  }
  if (result.count > 0 && result.first.empty()) return malformed(fmt::format("\"{}\"", name));
  return result;
}

}  // namespace

diag::Result<WindowLog> window_log_from_json(const json& document) {
  WindowLog result;
  const json* windows = base::member(document, "windows");
  if (windows == nullptr || !windows->is_array()) return malformed("\"windows\"");
  for (const json& w : *windows) {
    const json* length = base::member(w, "acceptance_length");
    if (length == nullptr || !length->is_number()) return malformed("\"windows\"");
    result.log.windows.push_back({.line = static_cast<uint32_t>(written_count(w, "line").value_or(0)),
                                  .begin_ns = std::nullopt,
                                  .end_ns = std::nullopt,
                                  .acceptance_length = length->get<double>(),
                                  .steps = written_count(w, "steps"),
                                  .accepted = written_count(w, "accepted"),
                                  .drafted = std::nullopt,
                                  .per_position = {}});
  }
  auto compile = lines_from_json(document, "compile_lines");
  if (!compile) return diag::fail(std::move(compile).error());
  auto errors = lines_from_json(document, "error_lines");
  if (!errors) return diag::fail(std::move(errors).error());
  result.log.compile_lines = std::move(*compile);
  result.log.error_lines = std::move(*errors);
  result.log.steps_per_window = written_count(document, "steps_per_window");
  result.log.new_tokens = written_count(document, "prompt_tokens_computed");
  result.log.cached_tokens = written_count(document, "prompt_tokens_cached");
  if (const json* problem = base::member(document, "problem"); problem != nullptr && problem->is_string())
    result.problem = problem->get<std::string>();
  return result;
}

}  // namespace sweep::engine
