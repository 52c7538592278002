#include "orchestrator/cli/run_load.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <vector>

#include "orchestrator/diag/rules/http.h"
#include "orchestrator/diag/rules/run.h"
#include "orchestrator/http/secret.h"
#include "orchestrator/http/url.h"

namespace sweep::cli {

namespace {

namespace rule = diag::rule;

constexpr double kMostPerSecond = 1e6;

// Without the slashes at its end, and without the "/v1" that clients of other kinds want there.
diag::Result<std::string> server_address(std::string url) {
  if (const auto origin = http::origin_of(url); !origin)
    return diag::fail(rule::run_server_options, fmt::format("--engine-url: {}", origin.error().message),
                      origin.error().help);
  const std::string shown = http::display_url(url);
  const auto has = [&](std::string_view text) { return url.find(text) != std::string::npos; };
  if (has("@") || has("?") || has("#"))
    return diag::fail(rule::run_server_options, fmt::format("the address of {} holds a user, password or query", shown),
                      "name the variable that holds the server's key with --api-key-env NAME");
  const auto drop_slashes = [&] {
    while (url.ends_with('/')) url.pop_back();
  };
  drop_slashes();
  constexpr std::string_view kVersion = "/v1";
  if (url.ends_with(kVersion)) url.resize(url.size() - kVersion.size());
  drop_slashes();
  return url;
}

diag::Result<std::string> key_in(const std::string& variable) {
  const char* value = std::getenv(variable.c_str());
  const std::string key = value == nullptr ? std::string() : std::string(value);
  if (auto checked = http::check_key(key, fmt::format("the variable {}", variable)); !checked)
    return diag::fail(std::move(checked).error());
  return key;
}

// Empty if it is one. CLI11's own range takes NaN.
std::string check_rate(const std::string& text) {
  char* end = nullptr;
  const double rate = std::strtod(text.c_str(), &end);
  if (!text.empty() && *end == '\0' && rate > 0 && rate <= kMostPerSecond) return {};
  return fmt::format("\"{}\" is no rate above 0 and up to {} requests per second", text, kMostPerSecond);
}

}  // namespace

void add_load_options(CLI::App& command, const std::shared_ptr<LoadArguments>& arguments) {
  command.add_option("--engine-url", arguments->engine_url, "Measure a server that is already up")->type_name("URL");
  command
      .add_option("--api-key-env", arguments->api_key_variable,
                  "Of --engine-url: the environment variable that holds its key; the key is shown and stored nowhere")
      ->type_name("NAME");
  command
      .add_option("--ca-file", arguments->ca_file,
                  "Of --engine-url: a certificate authority (PEM) to trust beside the system's")
      ->type_name("FILE");
  command
      .add_option("--api", arguments->api,
                  "Of --engine-url: completions sends token ids; chat sends words, whose number the server confirms")
      ->type_name("API")
      ->check(CLI::IsMember(std::vector<std::string>{"completions", "chat"}));
  command
      .add_option("--request-rate", arguments->request_rate,
                  "Open loop: send so many requests a second, answered or not; latency counts from when each was due")
      ->type_name("R")
      ->check(check_rate);
  command
      .add_option("--arrivals", arguments->arrivals,
                  "Of --request-rate: fixed (equal intervals, the default) or poisson (by the seed)")
      ->type_name("HOW")
      ->check(CLI::IsMember(std::vector<std::string>{"fixed", "poisson"}));
}

diag::Result<diag::Done> read_load_options(const LoadArguments& arguments, pipeline::RunOptions& options,
                                           diag::Diagnostics& diagnostics) {
  const auto needs = [](std::string_view option, std::string_view other) {
    return diag::fail(rule::run_server_options, fmt::format("{} has no meaning without {}", option, other));
  };
  if (arguments.engine_url.empty()) {
    if (!arguments.api_key_variable.empty()) return needs("--api-key-env", "--engine-url");
    if (!arguments.ca_file.empty()) return needs("--ca-file", "--engine-url");
    if (arguments.api != "completions") return needs("--api chat", "--engine-url");
  } else {
    auto address = server_address(arguments.engine_url);
    if (!address) return diag::fail(std::move(address).error());
    options.engine_url = std::move(*address);
  }
  if (!arguments.api_key_variable.empty()) {
    auto key = key_in(arguments.api_key_variable);
    if (!key) return diag::fail(std::move(key).error());
    options.access.bearer_token = std::move(*key);
    const auto origin = http::origin_of(*options.engine_url);
    if (origin && origin->scheme != "https" && !origin->is_loopback())
      diagnostics.add(diag::make(rule::http_key_in_clear,
                                 fmt::format("the key of {} is sent in clear", http::display_url(*options.engine_url)),
                                 "use https://"));
  }
  options.access.ca_file = arguments.ca_file;
  options.api = arguments.api == "chat" ? loadgen::Api::kChat : loadgen::Api::kCompletions;
  if (arguments.request_rate)
    options.arrivals = loadgen::Arrivals{
        .per_second = *arguments.request_rate,
        .spacing = arguments.arrivals == "poisson" ? loadgen::Spacing::kPoisson : loadgen::Spacing::kFixed};
  else if (!arguments.arrivals.empty())
    return needs("--arrivals", "--request-rate");
  return diag::Done{};
}

}  // namespace sweep::cli
