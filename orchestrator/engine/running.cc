#include "orchestrator/engine/running.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <csignal>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>
#include <utility>

#include "orchestrator/base/deadline.h"
#include "orchestrator/base/file.h"
#include "orchestrator/base/json_fields.h"
#include "orchestrator/diag/rules/engine.h"
#include "orchestrator/diag/rules/exec.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/engine/container.h"
#include "orchestrator/engine/log_tail.h"
#include "orchestrator/engine/server.h"
#include "orchestrator/exec/marked.h"

namespace sweep::engine {

namespace {

namespace rule = diag::rule;
using std::chrono::milliseconds;

constexpr milliseconds kPollInterval{20};
constexpr milliseconds kStopGrace{5000};

std::optional<int> number_of_port(std::string_view text) {
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  constexpr int kLastPort = 65535;
  if (error != std::errc() || port <= 0 || port > kLastPort) return std::nullopt;
  return port;
}

// Empty until the engine has written its port.
std::string url_of(const Launch& launch) {
  if (!launch.port_file) return launch.base_url;
  const auto text = base::read_file(*launch.port_file);
  const auto port = text ? number_of_port(*text) : std::nullopt;
  return port ? fmt::format("http://127.0.0.1:{}", *port) : std::string();
}

// Whether a server could listen there now: a listener on this address or on all of them would stand in the way.
bool is_free(int port) {
  const base::FileDescriptor probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  ::setsockopt(probe.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);  // connections that linger do not count
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return !probe.is_open() || ::bind(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
         errno != EADDRINUSE;
}

diag::Result<base::Done> check_port(const Launch& launch) {
  if (launch.port_file) return base::Done{};
  const auto port = number_of_port(std::string_view(launch.base_url).substr(launch.base_url.rfind(':') + 1));
  if (!port || is_free(*port)) return base::Done{};
  return diag::fail(rule::engine_port_taken,
                    fmt::format("port {} is taken: another server would answer in the engine's place", *port),
                    "end the other server, or state another port in the recipe");
}

diag::Result<base::Done> write_files(const Launch& launch) {
  std::error_code ignored;
  if (launch.port_file) std::filesystem::remove(*launch.port_file, ignored);
  for (const LaunchFile& file : launch.files)
    if (auto written = base::write_file_atomic(file.path, file.text); !written)
      return diag::fail(rule::file_unwritable, written.error().text());
  return base::Done{};
}

// Unique on this host: a pid is taken again only after its start time has passed.
std::string new_mark() {
  static std::atomic<int> count = 0;
  return fmt::format("{}-{}-{}", ::getpid(), exec::start_time_of(::getpid()).value_or(0), ++count);
}

diag::Diagnostic died(const exec::ExitStatus& status, const std::filesystem::path& log) {
  return failure_told_by(log, rule::engine_died, fmt::format("the engine ended by itself: {}", status.text()),
                         fmt::format("read {}", log.string()));
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

RunningEngine::RunningEngine(exec::Process process, std::string mark, const Launch& launch, std::string image_digest)
    : container_(launch.container),
      mark_(std::move(mark)),
      log_(launch.command.output),
      image_digest_(std::move(image_digest)),
      process_(std::move(process)) {}

RunningEngine::~RunningEngine() {
  if (process_.pid() > 0) stop();
}

diag::Result<RunningEngine> RunningEngine::start(const Launch& launch, std::chrono::milliseconds limit,
                                                 const std::stop_token& stop) {
  if (auto free = check_port(launch); !free) return diag::fail(std::move(free).error());
  if (auto written = write_files(launch); !written) return diag::fail(std::move(written).error());
  std::string digest;
  if (launch.container) {
    auto prepared = prepare_container(*launch.container, stop);
    if (!prepared) return diag::fail(std::move(prepared).error());
    digest = std::move(*prepared);
  }
  std::string mark = new_mark();
  exec::CommandSpec command = launch.command;
  command.environment.emplace_back(exec::kMarkVariable, mark);
  auto process = exec::Process::start(command);
  if (!process) return diag::fail(std::move(process).error());
  RunningEngine engine(std::move(*process), std::move(mark), launch, std::move(digest));
  if (auto ready = engine.wait_until_ready(launch, limit, stop); !ready) return diag::fail(std::move(ready).error());
  engine.first_process_ = engine.pid();
  if (launch.container) engine.first_process_ = engine::first_process(*launch.container).value_or(engine.pid());
  return engine;
}

diag::Result<base::Done> RunningEngine::wait_until_ready(const Launch& launch, std::chrono::milliseconds limit,
                                                         const std::stop_token& stop) {
  const base::Deadline deadline(limit);
  while (!deadline.passed()) {
    if (const auto status = process_.wait(kPollInterval, stop)) return diag::fail(died(*status, log_));
    if (stop.stop_requested()) return diag::fail(rule::exec_interrupted, "interrupted while the engine was starting");
    base_url_ = url_of(launch);
    if (base_url_.empty()) continue;
    const auto models = models_if_ready({.base_url = base_url_, .until = deadline}, stop);
    if (models) return check_model(*models, base_url_, launch.served_model);
  }
  return diag::fail(failure_told_by(
      log_, rule::engine_not_ready,
      fmt::format("the engine was not ready after {:g} s", std::chrono::duration<double>(limit).count()),
      fmt::format("read {}, or allow more time with --ready-timeout", log_.string())));
}

std::optional<diag::Diagnostic> RunningEngine::death(milliseconds patience) {
  const auto status = process_.wait(patience, {});
  if (!status) return std::nullopt;
  return died(*status, log_);
}

void RunningEngine::stop() {
  if (std::exchange(stopped_, true)) return;
  if (container_) stop_container(*container_);
  process_.stop(kStopGrace);
  exec::kill_marked(mark_);
  if (container_) remove_container(*container_);
}

void end_left_behind(const nlohmann::json& engine) {
  const auto text = [](const nlohmann::json& object, const char* name) {
    const nlohmann::json* value = base::member(object, name);
    return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
  };
  const auto pid = static_cast<pid_t>(base::count_in(engine, "pid").value_or(0));
  if (pid > 1) {
    const auto started = exec::start_time_of(pid);
    const auto recorded = base::count_in(engine, "pid_start_time");
    if (started && recorded && *started == static_cast<uint64_t>(*recorded)) ::kill(-pid, SIGKILL);
  }
  exec::kill_marked(text(engine, "mark"));
  if (const nlohmann::json* container = base::member(engine, "container"))
    remove_container(text(*container, "runtime"), text(*container, "name"));
}

diag::Result<base::Done> check_server(const ServerAddress& server, const std::string& model,
                                      const std::stop_token& stop) {
  auto models = models_of(server, stop);
  if (!models) return diag::fail(std::move(models).error());
  return check_model(*models, server.base_url, model);
}

}  // namespace sweep::engine
