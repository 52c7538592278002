#include "orchestrator/engine/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "orchestrator/base/json_fields.h"
#include "orchestrator/base/json_nesting.h"
#include "orchestrator/diag/rules/engine.h"
#include "orchestrator/diag/rules/http.h"
#include "orchestrator/engine/decode_log_line.h"
#include "orchestrator/http/client.h"
#include "orchestrator/http/secret.h"

namespace sweep::engine {

namespace {

namespace rule = diag::rule;
using nlohmann::json;

constexpr http::Timeouts kOfOneQuestion{.connect = std::chrono::seconds(2), .total = std::chrono::seconds(10)};

diag::Result<http::Response> get(const ServerAddress& server, std::string_view path, const std::stop_token& stop) {
  return http::get({.url = server.base_url + std::string(path),
                    .credentials = http::credentials(server.access),
                    .timeouts = within(kOfOneQuestion, server),
                    .ca_file = server.access.ca_file},
                   stop);
}

json object_at(const ServerAddress& server, std::string_view path, const std::stop_token& stop) {
  if (path.empty() || (server.until && server.until->passed())) return nullptr;
  const auto reply = get(server, path, stop);
  if (!reply || reply->head.status != 200 || base::json_nesting(reply->body) > base::kDeepestJson) return nullptr;
  auto document = json::parse(http::without_secret(reply->body, server.access.bearer_token), nullptr, false);
  return document.is_object() ? document : json(nullptr);
}

std::optional<std::vector<std::string>> model_ids(std::string_view body) {
  const auto document = json::parse(body, nullptr, false);
  if (!document.is_object() || !document.contains("data") || !document["data"].is_array()) return std::nullopt;
  std::vector<std::string> ids;
  for (const auto& model : document["data"])
    if (model.is_object() && model.contains("id") && model["id"].is_string()) ids.push_back(model["id"]);
  return ids;
}

std::string text_in(const json& object, const char* name) {
  const json* value = base::member(object, name);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

// The word behind `key`, without quotes, up to a comma, bracket or blank; empty if the key is not there.
std::string word_behind(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  if (at == std::string_view::npos) return {};
  std::string_view rest = text.substr(at + key.size());
  while (!rest.empty() && std::string_view("'\" ").find(rest.front()) != std::string_view::npos) rest.remove_prefix(1);
  return std::string(rest.substr(0, std::min(rest.find_first_of("'\",)] \r\n"), rest.size())));
}

// vLLM, TensorRT-LLM and SGLang, in this order; each writes its version once, when it starts.
constexpr std::array<std::string_view, 4> kVersionMarks{"LLM engine (v", "vLLM API server version ",
                                                        "TensorRT LLM version: ", "TensorRT-LLM version: "};
constexpr std::array<std::string_view, 3> kCacheTypeMarks{"kv_cache_dtype=", "kv_cache_dtype: ", "--kv_cache_dtype "};

// What names the record that a token has in the KV cache; engines differ by GPU for the same flags.
constexpr std::array<std::string_view, 3> kLayoutMarks{"KV layout", "kv layout", "KV cache layout"};

std::string line_with(std::string_view log, std::string_view mark) {
  const size_t at = log.find(mark);
  if (at == std::string_view::npos) return {};
  const size_t begin = log.rfind('\n', at) + 1;  // npos + 1 is 0
  return printable(log.substr(begin, log.find('\n', at) - begin));
}

template <class Marks, class Find>
std::string first_of(const Marks& marks, const Find& find) {
  for (const std::string_view mark : marks)
    if (std::string found = find(mark); !found.empty()) return found;
  return {};
}

json or_null(std::string text) {
  return text.empty() ? json(nullptr) : json(std::move(text));
}

}  // namespace

http::Timeouts within(http::Timeouts limits, const ServerAddress& server) {
  if (!server.until) return limits;
  limits.connect = server.until->at_most(limits.connect);
  limits.total = server.until->at_most(limits.total);
  return limits;
}

std::optional<std::vector<std::string>> models_if_ready(const ServerAddress& server, const std::stop_token& stop) {
  const auto health = get(server, "/health", stop);
  if (!health || health->head.status != 200) return std::nullopt;
  const auto models = get(server, "/v1/models", stop);
  if (!models || models->head.status != 200) return std::nullopt;
  return model_ids(models->body);
}

diag::Result<std::vector<std::string>> models_of(const ServerAddress& server, const std::stop_token& stop) {
  const auto not_ready = [&](const char* path, std::string found) {
    return diag::fail(rule::engine_not_ready, fmt::format("{}{} {}", server.base_url, path, found),
                      "start the server first, or let sweepctl start it by leaving out --engine-url");
  };
  const auto health = get(server, "/health", stop);
  if (!health && health.error().rule == rule::http_tls) return diag::fail(health.error());
  if (!health) return not_ready("/health", fmt::format("does not answer: {}", health.error().message));
  constexpr std::array kNoSuchPath{404, 405, 501};
  const bool has_health = std::find(kNoSuchPath.begin(), kNoSuchPath.end(), health->head.status) == kNoSuchPath.end();
  const auto models = get(server, "/v1/models", stop);
  if (!models) return not_ready("/v1/models", fmt::format("does not answer: {}", models.error().message));
  for (const int status : {health->head.status, models->head.status})
    if (status == 401 || status == 403)
      return diag::fail(rule::engine_not_authorised, fmt::format("{} answers with status {}", server.base_url, status),
                        server.access.bearer_token.empty()
                            ? "name the variable that holds its key with --api-key-env NAME"
                            : "the key is not the server's");
  if (has_health && health->head.status != 200)
    return not_ready("/health", fmt::format("answers with status {}", health->head.status));
  if (models->head.status != 200)
    return not_ready("/v1/models", fmt::format("answers with status {}", models->head.status));
  auto ids = model_ids(models->body);
  if (!ids) return not_ready("/v1/models", "answers with something else than a list of models");
  return std::move(*ids);
}

diag::Result<base::Done> probe(const ServerAddress& server, const Probe& request, const std::stop_token& stop) {
  const std::string url = server.base_url + std::string(request.path);
  const auto fail = [&](std::string why) {
    return diag::fail(rule::engine_probe_failed, fmt::format("the probe request to {} {}", url, why),
                      "look into the engine's log");
  };
  const auto reply = http::post({.url = url,
                                 .headers = {{"Content-Type", "application/json"}},
                                 .credentials = http::credentials(server.access),
                                 .body = request.body,
                                 .timeouts = {.connect = kOfOneQuestion.connect, .total = request.limit},
                                 .ca_file = server.access.ca_file},
                                stop);
  if (!reply) return diag::fail(reply.error());
  const std::string body = http::without_secret(reply->body, server.access.bearer_token);
  if (reply->head.status != 200)
    return fail(fmt::format("was answered with status {}: {}", reply->head.status, printable(body)));
  if (const size_t error = body.find("data: {\"error\""); error != std::string::npos)
    return fail(fmt::format("was answered with an error: {}", printable(std::string_view(body).substr(error))));
  if (body.find("data: ") == std::string::npos || body.find("\"choices\"") == std::string::npos)
    return fail(fmt::format("was not answered with a stream of tokens: {}", printable(body)));
  return base::Done{};
}

json describe_from(const json& info, const json& version, std::string_view log) {
  std::string number = text_in(version, "version");
  if (number.empty()) number = text_in(info, "version");
  if (number.empty()) number = first_of(kVersionMarks, [&](std::string_view mark) { return word_behind(log, mark); });
  std::string type = text_in(info, "kv_cache_dtype");
  if (type.empty()) type = first_of(kCacheTypeMarks, [&](std::string_view mark) { return word_behind(log, mark); });
  std::string layout = text_in(info, "kv_layout");
  const bool from_info = !text_in(info, "kv_cache_dtype").empty() || !layout.empty();
  if (layout.empty()) layout = first_of(kLayoutMarks, [&](std::string_view mark) { return line_with(log, mark); });
  json cache = nullptr;
  if (!type.empty() || !layout.empty())
    cache = {{"dtype", or_null(std::move(type))},
             {"layout", or_null(std::move(layout))},
             {"from", from_info ? "server_info" : "log"}};
  return {{"version", or_null(std::move(number))}, {"kv_cache", std::move(cache)}, {"server_info", info}};
}

json describe(const Framework& framework, const ServerAddress& server, const std::optional<std::filesystem::path>& log,
              const std::stop_token& stop) {
  const json info = object_at(server, framework.endpoints.info, stop);
  const json version = object_at(server, framework.endpoints.version, stop);
  constexpr size_t kBeginning = size_t{16} << 20;  // what an engine says when it starts is far less
  std::string text;
  if (log) {
    std::ifstream file(*log, std::ios::binary);
    text.resize(kBeginning);
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  }
  return describe_from(info, version, text);
}

}  // namespace sweep::engine
