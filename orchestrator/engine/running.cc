#include "orchestrator/engine/running.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>
#include <thread>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/engine.h"
#include "orchestrator/diag/rules/exec.h"
#include "orchestrator/engine/server.h"

namespace sweep::engine {

namespace {

namespace rule = diag::rule;
using std::chrono::milliseconds;

constexpr milliseconds kPollInterval{20};
constexpr milliseconds kStopGrace{5000};

diag::Diagnostic died(const exec::ExitStatus& status, const std::string& log) {
  return diag::make(rule::engine_died, fmt::format("the engine ended by itself: {}", status.text()),
                    fmt::format("read {}", log));
}

// Empty until the engine has written its port.
std::string url_of(const Launch& launch) {
  if (!launch.port_file) return launch.base_url;
  const auto text = base::read_file(*launch.port_file);
  if (!text) return {};
  int port = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), port);
  if (error != std::errc() || port <= 0 || port > 65535) return {};
  return fmt::format("http://127.0.0.1:{}", port);
}

diag::Result<base::Done> check_model(const std::vector<std::string>& ids, const std::string& base_url,
                                     const std::string& model) {
  if (std::find(ids.begin(), ids.end(), model) != ids.end()) return base::Done{};
  return diag::fail(
      rule::engine_wrong_model,
      fmt::format("{} serves {}, not \"{}\"", base_url,
                  ids.empty() ? "no model" : "\"" + fmt::format("{}", fmt::join(ids, "\", \"")) + "\"", model),
      "start the server with the entry's model, or name the entry that it serves");
}

}  // namespace

diag::Result<RunningEngine> RunningEngine::start(const Launch& launch, std::chrono::seconds limit,
                                                 const std::stop_token& stop) {
  std::error_code ignored;
  if (launch.port_file) std::filesystem::remove(*launch.port_file, ignored);
  auto process = exec::Process::start(launch.command);
  if (!process) return diag::fail(std::move(process).error());
  const std::string log = launch.command.output.string();
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (std::chrono::steady_clock::now() < deadline) {
    if (const auto status = process->wait(kPollInterval, stop)) return diag::fail(died(*status, log));
    if (stop.stop_requested()) return diag::fail(rule::exec_interrupted, "interrupted while the engine was starting");
    const std::string base_url = url_of(launch);
    if (base_url.empty()) continue;
    const auto models = models_if_ready(base_url, stop);
    if (!models) continue;
    if (auto checked = check_model(*models, base_url, launch.served_model); !checked)
      return diag::fail(std::move(checked).error());
    return RunningEngine(std::move(*process), base_url, log);
  }
  return diag::fail(rule::engine_not_ready, fmt::format("the engine was not ready after {} s", limit.count()),
                    fmt::format("read {}, or allow more time with --ready-timeout", log));
}

std::optional<diag::Diagnostic> RunningEngine::death(milliseconds patience) {
  const auto status = process_.wait(patience, {});
  if (!status) return std::nullopt;
  return died(*status, log_);
}

void RunningEngine::stop() {
  process_.stop(kStopGrace);
}

diag::Result<base::Done> check_server(const std::string& base_url, const std::string& model,
                                      const std::stop_token& stop, const http::Access& access) {
  auto models = models_of(base_url, access, stop);
  if (!models) return diag::fail(std::move(models).error());
  return check_model(*models, base_url, model);
}

}  // namespace sweep::engine
