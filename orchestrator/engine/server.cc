#include "orchestrator/engine/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/engine.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/http/client.h"

namespace sweep::engine {

namespace {

namespace rule = diag::rule;

constexpr http::Timeouts kShort{.connect = std::chrono::seconds(2), .total = std::chrono::seconds(10)};

// One sample line of the text format: name{labels} value [timestamp].
struct MetricLine {
  std::string_view name;
  std::string_view labels;
  double value = 0;
};

std::optional<MetricLine> parse_line(std::string_view line) {
  if (line.empty() || line.front() == '#') return std::nullopt;
  MetricLine metric;
  const size_t name_end = line.find_first_of("{ ");
  if (name_end == std::string_view::npos) return std::nullopt;
  metric.name = line.substr(0, name_end);
  std::string_view rest = line.substr(name_end);
  if (rest.front() == '{') {
    const size_t close = rest.rfind('}');
    if (close == std::string_view::npos) return std::nullopt;
    metric.labels = rest.substr(1, close - 1);
    rest.remove_prefix(close + 1);
  }
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), metric.value);
  if (error != std::errc() || !std::isfinite(metric.value)) return std::nullopt;
  return metric;
}

// The value of label position="N"; nothing if it has none or it is not a small number.
std::optional<size_t> position_of(std::string_view labels) {
  constexpr std::string_view kLabel = "position=\"";
  constexpr size_t kMostPositions = 64;
  const size_t at = labels.find(kLabel);
  if (at == std::string_view::npos) return std::nullopt;
  labels.remove_prefix(at + kLabel.size());
  size_t position = 0;
  const auto [end, error] = std::from_chars(labels.data(), labels.data() + labels.size(), position);
  if (error != std::errc() || position >= kMostPositions) return std::nullopt;
  return position;
}

int64_t whole(double value) {
  return static_cast<int64_t>(std::llround(value));
}

}  // namespace

Counters operator-(const Counters& after, const Counters& before) {
  Counters difference{.drafts = after.drafts - before.drafts,
                      .accepted = after.accepted - before.accepted,
                      .accepted_per_position = after.accepted_per_position,
                      .prefix_cache_hits = after.prefix_cache_hits - before.prefix_cache_hits};
  for (size_t i = 0; i < difference.accepted_per_position.size() && i < before.accepted_per_position.size(); ++i)
    difference.accepted_per_position[i] -= before.accepted_per_position[i];
  return difference;
}

nlohmann::json to_json(const Counters& counters) {
  return {{"drafts", counters.drafts},
          {"accepted", counters.accepted},
          {"accepted_per_position", counters.accepted_per_position},
          {"prefix_cache_hits", counters.prefix_cache_hits}};
}

diag::Result<Counters> counters_from_json(const nlohmann::json& json) {
  const auto number = [&](const char* key) -> std::optional<int64_t> {
    const auto found = json.is_object() ? json.find(key) : json.end();
    if (found == json.end() || !found->is_number_integer()) return std::nullopt;
    return found->get<int64_t>();
  };
  const auto drafts = number("drafts");
  const auto accepted = number("accepted");
  const auto hits = number("prefix_cache_hits");
  if (!drafts || !accepted || !hits || !json.contains("accepted_per_position") ||
      !json["accepted_per_position"].is_array())
    return diag::fail(rule::file_malformed, "acceptance counters are incomplete");
  Counters counters{.drafts = *drafts, .accepted = *accepted, .prefix_cache_hits = *hits};
  for (const auto& value : json["accepted_per_position"]) {
    if (!value.is_number_integer()) return diag::fail(rule::file_malformed, "acceptance counters are not numbers");
    counters.accepted_per_position.push_back(value.get<int64_t>());
  }
  return counters;
}

std::optional<Counters> parse_counters(std::string_view page, std::string_view prefix) {
  Counters counters;
  bool has_drafts = false;
  while (!page.empty()) {
    std::string_view line = page.substr(0, page.find('\n'));
    page.remove_prefix(std::min(page.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const auto metric = parse_line(line);
    if (!metric || !metric->name.starts_with(prefix)) continue;
    const std::string_view name = metric->name.substr(prefix.size());
    if (name == "spec_decode_num_drafts_total") {
      counters.drafts += whole(metric->value);
      has_drafts = true;
    } else if (name == "spec_decode_num_accepted_tokens_total") {
      counters.accepted += whole(metric->value);
    } else if (name == "spec_decode_num_accepted_tokens_per_pos_total") {
      const auto position = position_of(metric->labels);
      if (!position) continue;
      if (counters.accepted_per_position.size() <= *position) counters.accepted_per_position.resize(*position + 1);
      counters.accepted_per_position[*position] += whole(metric->value);
    } else if (name == "prefix_cache_hits_total") {
      counters.prefix_cache_hits += whole(metric->value);
    }
  }
  if (!has_drafts) return std::nullopt;
  return counters;
}

diag::Result<Counters> read_counters(const std::string& base_url, std::string_view prefix,
                                     const std::stop_token& stop) {
  auto reply = http::get({.url = base_url + "/metrics", .timeouts = kShort}, stop);
  if (!reply) return diag::fail(std::move(reply).error());
  const auto counters = reply->head.status == 200 ? parse_counters(reply->body, prefix) : std::nullopt;
  if (!counters)
    return diag::fail(rule::engine_no_counters,
                      fmt::format("{}/metrics (status {}) has no counter \"{}spec_decode_num_drafts_total\"", base_url,
                                  reply->head.status, prefix),
                      "switch the engine's metrics on");
  return *counters;
}

std::optional<std::vector<std::string>> models_if_ready(const std::string& base_url, const std::stop_token& stop) {
  const auto health = http::get({.url = base_url + "/health", .timeouts = kShort}, stop);
  if (!health || health->head.status != 200) return std::nullopt;
  const auto models = http::get({.url = base_url + "/v1/models", .timeouts = kShort}, stop);
  if (!models || models->head.status != 200) return std::nullopt;
  const auto json = nlohmann::json::parse(models->body, nullptr, false);
  if (!json.is_object() || !json.contains("data") || !json["data"].is_array()) return std::nullopt;
  std::vector<std::string> ids;
  for (const auto& model : json["data"])
    if (model.is_object() && model.contains("id") && model["id"].is_string()) ids.push_back(model["id"]);
  return ids;
}

nlohmann::json server_info(const std::string& base_url, const std::stop_token& stop) {
  const auto reply = http::get({.url = base_url + "/server_info", .timeouts = kShort}, stop);
  if (!reply || reply->head.status != 200) return nullptr;
  auto json = nlohmann::json::parse(reply->body, nullptr, false);
  return json.is_object() ? json : nlohmann::json(nullptr);
}

std::vector<Window> read_windows(const std::filesystem::path& log, int64_t begin_unix_ns, int64_t end_unix_ns) {
  std::vector<Window> windows;
  const auto text = base::read_file(log);
  if (!text) return windows;
  std::string_view rest = *text;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.find("decode_window") == std::string_view::npos) continue;
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || json.value("event", "") != "decode_window") continue;
    const auto number = [&json](const char* key) {
      const auto found = json.find(key);
      return found != json.end() && found->is_number_integer() ? found->get<int64_t>() : int64_t{0};
    };
    const Window window{.begin_unix_ns = number("unix_ns_begin"),
                        .end_unix_ns = number("unix_ns_end"),
                        .steps = number("steps"),
                        .accepted = number("accepted")};
    if (window.steps > 0 && window.begin_unix_ns >= begin_unix_ns && window.end_unix_ns <= end_unix_ns)
      windows.push_back(window);
  }
  return windows;
}

}  // namespace sweep::engine
