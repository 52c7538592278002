#include "orchestrator/hub/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <utility>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/http.h"
#include "orchestrator/diag/rules/hub.h"
#include "orchestrator/http/url.h"

namespace sweep::hub {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLargestTokenFile = 64 << 10;
constexpr size_t kLongestToken = 4096;

std::optional<std::string> filled(const Environment& environment, const std::string& name) {
  auto value = environment(name);
  if (value && value->empty()) value.reset();
  return value;
}

bool is_true(std::string value) {
  std::transform(value.begin(), value.end(), value.begin(), [](char c) { return c >= 'a' && c <= 'z' ? c - 32 : c; });
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

fs::path expanded(const std::string& path, const Environment& environment) {
  if (path != "~" && !path.starts_with("~/")) return path;
  const auto home = filled(environment, "HOME");
  return home ? fs::path(*home + path.substr(1)) : fs::path(path);
}

// Where huggingface_hub keeps the token of `hf auth login`. Empty: nowhere.
fs::path token_file(const Environment& environment) {
  if (const auto path = filled(environment, "HF_TOKEN_PATH")) return expanded(*path, environment);
  if (const auto home = filled(environment, "HF_HOME")) return expanded(*home, environment) / "token";
  if (const auto cache = filled(environment, "XDG_CACHE_HOME"))
    return expanded(*cache, environment) / "huggingface" / "token";
  if (const auto home = filled(environment, "HOME")) return fs::path(*home) / ".cache" / "huggingface" / "token";
  return {};
}

// A token without the blanks around it; nothing if nothing is left. `origin` says where it is from.
diag::Result<std::optional<std::string>> checked_token(std::string_view text, const std::string& origin) {
  const std::string_view token = trimmed(text);
  if (token.empty()) return std::optional<std::string>();
  const auto is_plain = [](char c) { return c > 0x20 && c < 0x7f; };
  if (token.size() > kLongestToken || !std::all_of(token.begin(), token.end(), is_plain))
    return diag::fail(diag::rule::hub_bad_setting,
                      fmt::format("the token in {} is not one word of printable ASCII characters", origin),
                      "copy it again from the hub's page of access tokens; it is not shown here");
  return std::optional<std::string>(token);
}

diag::Result<std::optional<std::string>> find_token(const Environment& environment) {
  if (const auto text = environment("HF_TOKEN")) {
    auto token = checked_token(*text, "HF_TOKEN");
    if (!token || *token) return token;
  }
  const fs::path file = token_file(environment);
  if (file.empty()) return std::optional<std::string>();
  const auto text = base::read_file(file, kLargestTokenFile);
  if (text) return checked_token(*text, fmt::format("\"{}\"", file.string()));
  if (text.error().error_number == ENOENT || text.error().error_number == ENOTDIR) return std::optional<std::string>();
  return diag::fail(diag::rule::hub_bad_setting, fmt::format("the token's file: {}", text.error().text()),
                    "mend it, or name another one in HF_TOKEN_PATH");
}

diag::Result<std::string> find_endpoint(const Environment& environment) {
  std::string endpoint = filled(environment, "HF_ENDPOINT").value_or(Settings().endpoint);
  while (endpoint.ends_with('/')) endpoint.pop_back();
  if (const auto origin = http::origin_of(endpoint); !origin)
    return diag::fail(origin.error().rule == diag::rule::http_no_libcurl
                          ? origin.error()
                          : diag::make(diag::rule::hub_bad_setting,
                                       fmt::format("HF_ENDPOINT: {}", origin.error().message),
                                       "write it like https://huggingface.co"));
  if (endpoint.find_first_of("?#") != std::string::npos)
    return diag::fail(diag::rule::hub_bad_setting,
                      fmt::format("HF_ENDPOINT \"{}\" has a query or fragment", http::display_url(endpoint)),
                      "write it like https://huggingface.co");
  return endpoint;
}

diag::Result<std::optional<std::chrono::milliseconds>> find_head_timeout(const Environment& environment) {
  const auto text = filled(environment, "HF_HUB_ETAG_TIMEOUT");
  if (!text) return std::optional<std::chrono::milliseconds>();
  constexpr int kMostSeconds = 3600;
  int seconds = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), seconds);
  if (error != std::errc() || end != text->data() + text->size() || seconds < 1 || seconds > kMostSeconds)
    return diag::fail(diag::rule::hub_bad_setting,
                      fmt::format("HF_HUB_ETAG_TIMEOUT must be a number of seconds from 1 to {}", kMostSeconds));
  return std::optional<std::chrono::milliseconds>(std::chrono::seconds(seconds));
}

}  // namespace

std::optional<Settings> settings_from(const Environment& environment, diag::Diagnostics& diagnostics) {
  if (const auto offline = filled(environment, "HF_HUB_OFFLINE"); offline && is_true(*offline)) {
    diagnostics.add(diag::make(diag::rule::hub_offline, "HF_HUB_OFFLINE is set: the hub is not asked",
                               "unset it, or make the pin from --from-dir DIR or --from-listing FILE"));
    return std::nullopt;
  }
  Settings settings;
  auto endpoint = find_endpoint(environment);
  auto token = find_token(environment);
  auto head_timeout = find_head_timeout(environment);
  if (!endpoint) diagnostics.add(endpoint.error());
  if (!token) diagnostics.add(token.error());
  if (!head_timeout) diagnostics.add(head_timeout.error());
  if (!endpoint || !token || !head_timeout) return std::nullopt;
  settings.endpoint = std::move(*endpoint);
  settings.token = std::move(*token);
  settings.head_timeout = *head_timeout;
  const http::Origin origin = http::origin_of(settings.endpoint).value();
  if (settings.token && origin.scheme != "https" && !origin.is_loopback()) {
    settings.token.reset();
    diagnostics.add(
        diag::make(diag::rule::hub_token_withheld,
                   fmt::format("{} is not https: the token is not sent", http::display_url(settings.endpoint)),
                   "use an https endpoint"));
  }
  return settings;
}

}  // namespace sweep::hub
