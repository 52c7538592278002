#include "orchestrator/engine/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "orchestrator/diag/rules/engine.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/http.h"
#include "orchestrator/engine/spec_counters.h"
#include "orchestrator/http/client.h"
#include "orchestrator/http/secret.h"

namespace sweep::engine {

namespace {

namespace rule = diag::rule;

constexpr http::Timeouts kShort{.connect = std::chrono::seconds(2), .total = std::chrono::seconds(10)};

diag::Result<http::Response> get(const std::string& url, const http::Access& access, const std::stop_token& stop) {
  return http::get(
      {.url = url, .credentials = http::credentials(access), .timeouts = kShort, .ca_file = access.ca_file}, stop);
}

std::optional<std::vector<std::string>> model_ids(std::string_view body) {
  const auto json = nlohmann::json::parse(body, nullptr, false);
  if (!json.is_object() || !json.contains("data") || !json["data"].is_array()) return std::nullopt;
  std::vector<std::string> ids;
  for (const auto& model : json["data"])
    if (model.is_object() && model.contains("id") && model["id"].is_string()) ids.push_back(model["id"]);
  return ids;
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

diag::Result<Counters> parse_counters(std::string_view page, std::string_view prefix, const std::string& source) {
  const auto names = std::find_if(counter_names().begin(), counter_names().end(),
                                  [&](const CounterNames& known) { return known.prefix == prefix; });
  auto metrics = parse_metrics(page, source);
  if (!metrics) return diag::fail(std::move(metrics).error());
  auto counted = names != counter_names().end() ? spec_counters(*metrics, *names) : SpecCounters{};
  if (!counted) return diag::fail(std::move(counted).error());
  if (!counted->drafts)
    return diag::fail(rule::engine_no_counters, fmt::format("{} has no counter of drafts \"{}...\"", source, prefix),
                      "switch the engine's metrics on");
  return Counters{.drafts = *counted->drafts,
                  .accepted = counted->accepted.value_or(0),
                  .accepted_per_position = std::move(counted->accepted_per_position),
                  .prefix_cache_hits = counted->cache_hits.value_or(0)};
}

diag::Result<Counters> read_counters(const std::string& base_url, std::string_view prefix, const std::stop_token& stop,
                                     const http::Access& access) {
  const std::string url = base_url + "/metrics";
  auto reply = get(url, access, stop);
  if (!reply) return diag::fail(std::move(reply).error());
  if (reply->head.status != 200)
    return diag::fail(rule::engine_no_counters, fmt::format("{} answers with status {}", url, reply->head.status),
                      "switch the engine's metrics on");
  return parse_counters(reply->body, prefix, url);
}

std::optional<std::vector<std::string>> models_if_ready(const std::string& base_url, const std::stop_token& stop) {
  const auto health = get(base_url + "/health", {}, stop);
  if (!health || health->head.status != 200) return std::nullopt;
  const auto models = get(base_url + "/v1/models", {}, stop);
  if (!models || models->head.status != 200) return std::nullopt;
  return model_ids(models->body);
}

diag::Result<std::vector<std::string>> models_of(const std::string& base_url, const http::Access& access,
                                                 const std::stop_token& stop) {
  const auto not_ready = [&](const char* path, std::string found) {
    return diag::fail(rule::engine_not_ready, fmt::format("{}{} {}", base_url, path, found),
                      "start the server first, or let sweepctl start it by leaving out --engine-url");
  };
  const auto health = get(base_url + "/health", access, stop);
  if (!health && health.error().rule == rule::http_tls) return diag::fail(health.error());
  if (!health) return not_ready("/health", fmt::format("does not answer: {}", health.error().message));
  constexpr std::array kNoSuchPath{404, 405, 501};
  const bool has_health = std::find(kNoSuchPath.begin(), kNoSuchPath.end(), health->head.status) == kNoSuchPath.end();
  const auto models = get(base_url + "/v1/models", access, stop);
  if (!models) return not_ready("/v1/models", fmt::format("does not answer: {}", models.error().message));
  for (const int status : {health->head.status, models->head.status})
    if (status == 401 || status == 403)
      return diag::fail(rule::engine_not_authorised, fmt::format("{} answers with status {}", base_url, status),
                        access.bearer_token.empty() ? "name the variable that holds its key with --api-key-env NAME"
                                                    : "the key is not the server's");
  if (has_health && health->head.status != 200)
    return not_ready("/health", fmt::format("answers with status {}", health->head.status));
  if (models->head.status != 200)
    return not_ready("/v1/models", fmt::format("answers with status {}", models->head.status));
  auto ids = model_ids(models->body);
  if (!ids) return not_ready("/v1/models", "answers with something else than a list of models");
  return std::move(*ids);
}

nlohmann::json server_info(const std::string& base_url, const std::stop_token& stop, const http::Access& access) {
  const auto reply = get(base_url + "/server_info", access, stop);
  if (!reply || reply->head.status != 200) return nullptr;
  auto json = nlohmann::json::parse(http::without_secret(reply->body, access.bearer_token), nullptr, false);
  return json.is_object() ? json : nlohmann::json(nullptr);
}

}  // namespace sweep::engine
