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
#include "orchestrator/engine/decode_log_line.h"
#include "orchestrator/http/client.h"

namespace sweep::engine {

namespace {

namespace rule = diag::rule;
using nlohmann::json;

constexpr http::Timeouts kShort{.connect = std::chrono::seconds(2), .total = std::chrono::seconds(10)};

json object_at(const std::string& base_url, std::string_view path, const std::stop_token& stop) {
  if (path.empty()) return nullptr;
  const auto reply = http::get({.url = base_url + std::string(path), .timeouts = kShort}, stop);
  if (!reply || reply->head.status != 200 || base::json_nesting(reply->body) > base::kDeepestJson) return nullptr;
  auto document = json::parse(reply->body, nullptr, false);
  return document.is_object() ? document : json(nullptr);
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

std::optional<std::vector<std::string>> models_if_ready(const std::string& base_url, const std::stop_token& stop) {
  const auto health = http::get({.url = base_url + "/health", .timeouts = kShort}, stop);
  if (!health || health->head.status != 200) return std::nullopt;
  const auto models = http::get({.url = base_url + "/v1/models", .timeouts = kShort}, stop);
  if (!models || models->head.status != 200) return std::nullopt;
  const auto document = json::parse(models->body, nullptr, false);
  if (!document.is_object() || !document.contains("data") || !document["data"].is_array()) return std::nullopt;
  std::vector<std::string> ids;
  for (const auto& model : document["data"])
    if (model.is_object() && model.contains("id") && model["id"].is_string()) ids.push_back(model["id"]);
  return ids;
}

diag::Result<base::Done> probe(const std::string& base_url, const std::string& body, std::chrono::milliseconds limit,
                               const std::stop_token& stop) {
  const std::string url = base_url + "/v1/completions";
  const auto fail = [&](std::string why) {
    return diag::fail(rule::engine_probe_failed, fmt::format("the probe request to {} {}", url, why),
                      "look into the engine's log");
  };
  http::Request request{.url = url,
                        .headers = {{"Content-Type", "application/json"}},
                        .body = body,
                        .timeouts = {.connect = kShort.connect, .total = limit}};
  const auto reply = http::post(std::move(request), stop);
  if (!reply) return fail(fmt::format("failed: {}", reply.error().message));
  if (reply->head.status != 200)
    return fail(fmt::format("was answered with status {}: {}", reply->head.status, printable(reply->body)));
  if (reply->body.find("data: ") == std::string::npos || reply->body.find("\"choices\"") == std::string::npos)
    return fail(fmt::format("was not answered with a stream of tokens: {}", printable(reply->body)));
  if (reply->body.find("data: {\"error\"") != std::string::npos)
    return fail(fmt::format("was answered with an error: {}",
                            printable(std::string_view(reply->body).substr(reply->body.find("data: {\"error\"")))));
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

json describe(const Framework& framework, const std::string& base_url, const std::optional<std::filesystem::path>& log,
              const std::stop_token& stop) {
  const json info = object_at(base_url, framework.endpoints.info, stop);
  const json version = object_at(base_url, framework.endpoints.version, stop);
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
