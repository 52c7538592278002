#include "tests/conformance/npm_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>
#include <utility>

#include "orchestrator/base/file.h"
#include "orchestrator/exec/capture.h"
#include "orchestrator/http/client.h"
#include "tests/support/catch.h"

namespace sweep::test {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

constexpr auto kInstallLimit = 90s;
constexpr auto kReadyLimit = 60s;
// Each test case is a process of its own: one that found no network spares the others the wait.
constexpr auto kRememberFailure = std::chrono::minutes(10);

// Held until the object ends, so that of several processes one installs.
class Lock {
 public:
  explicit Lock(const fs::path& path) : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    if (fd_.is_open()) ::flock(fd_.get(), LOCK_EX);
  }

 private:
  base::FileDescriptor fd_;
};

std::string folder_name(const NpmPackage& package) {
  std::string name = package.name + "-" + package.version;
  for (char& c : name)
    if (c == '/' || c == '@') c = '_';
  return name;
}

// What is installed in the folder; empty if it is the pinned package.
std::string wrong_package(const fs::path& folder, const NpmPackage& package) {
  const auto text = base::read_file(folder / "node_modules" / ".package-lock.json");
  if (!text) return "it was not installed";
  const auto lock = nlohmann::json::parse(*text, nullptr, false);
  const auto* entry = &lock;
  for (const std::string& key : {std::string("packages"), "node_modules/" + package.name}) {
    if (!entry->is_object() || !entry->contains(key)) return "npm recorded no package of this name";
    entry = &(*entry)[key];
  }
  if (entry->value("version", "") != package.version || entry->value("integrity", "") != package.integrity)
    return fmt::format("version {} with integrity {} came, expected {} with {}", entry->value("version", ""),
                       entry->value("integrity", ""), package.version, package.integrity);
  return {};
}

std::string last_line(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

std::string run_npm(const fs::path& folder, const NpmPackage& package) {
  const exec::CommandSpec command{
      .argv = {"npm", "install", "--prefix", folder.string(), "--cache", (folder.parent_path() / "npm-cache").string(),
               "--ignore-scripts", "--no-fund", "--no-audit", "--no-save", "--no-update-notifier", "--fetch-retries=1",
               "--fetch-timeout=20000", package.name + "@" + package.version}};
  const auto ran = exec::capture(command, "", {.time = kInstallLimit}, {});
  if (!ran) return fmt::format("npm: {}", ran.error().message);
  if (!ran->status.ok()) return fmt::format("npm cannot install it: {}", last_line(ran->errors));
  return wrong_package(folder, package);
}

bool answers(const char* program) {
  const auto ran = exec::capture({.argv = {program, "--version"}}, "", {.time = 30s}, {});
  return ran && ran->status.ok();
}

std::string install_into(const fs::path& folder, const NpmPackage& package) {
  for (const char* program : {"node", "npm"})
    if (!answers(program)) return fmt::format("{} is not installed", program);
  std::error_code error;
  const fs::path fresh = folder.string() + ".new";
  fs::remove_all(fresh, error);
  fs::create_directories(fresh, error);
  if (std::string problem = run_npm(fresh, package); !problem.empty()) return problem;
  fs::remove_all(folder, error);
  fs::rename(fresh, folder, error);
  return error ? error.message() : std::string();
}

bool is_recent(const fs::path& path) {
  std::error_code error;
  const auto written = fs::last_write_time(path, error);
  return !error && fs::file_time_type::clock::now() - written < kRememberFailure;
}

// One that was free a moment ago.
int free_port() {
  const base::FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  REQUIRE(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  return ntohs(address.sin_port);
}

std::string with_port(std::string text, int port) {
  const std::string_view name = "{port}";
  const size_t at = text.find(name);
  return at == std::string::npos ? text : text.replace(at, name.size(), std::to_string(port));
}

}  // namespace

Installed install(const NpmPackage& package) {
  const fs::path cache = SWEEPCTL_CONFORMANCE_CACHE;
  const fs::path folder = cache / folder_name(package);
  const fs::path program = folder / "node_modules" / package.name / package.program;
  std::error_code error;
  fs::create_directories(cache, error);
  const Lock lock(folder.string() + ".lock");
  if (wrong_package(folder, package).empty() && fs::exists(program, error)) return {.program = program, .why_not = {}};
  const fs::path failure = folder.string() + ".failed";
  if (is_recent(failure))
    if (const auto text = base::read_file(failure)) return {.program = {}, .why_not = *text};
  if (const std::string problem = install_into(folder, package); !problem.empty()) {
    const std::string why_not = fmt::format("{}@{}: {}", package.name, package.version, problem);
    [[maybe_unused]] const auto written = base::write_file_atomic(failure, why_not);
    return {.program = {}, .why_not = why_not};
  }
  return {.program = program, .why_not = {}};
}

NpmServer::NpmServer(const fs::path& program, const Options& options) : folder_(base::TempDir::create().value()) {
  for (const auto& [name, content] : options.files)
    REQUIRE(base::write_file_atomic(folder_.path() / name, content).has_value());
  // Another process may take the port before the server does.
  constexpr int kAttempts = 3;
  for (int i = 0; i < kAttempts; ++i) {
    port_ = free_port();
    // Its configuration is looked for in the working directory.
    exec::CommandSpec command{.argv = {"env", "-C", folder_.path().string(), "node", program.string()},
                              .environment = {{"NO_COLOR", "1"}, {"NODE_OPTIONS", ""}},
                              .output = folder_.path() / "server.log"};
    for (const std::string& argument : options.arguments) command.argv.push_back(with_port(argument, port_));
    for (const auto& [name, value] : options.environment)
      command.environment.emplace_back(name, with_port(value, port_));
    process_.emplace(exec::Process::start(command).value());
    const auto limit = std::chrono::steady_clock::now() + kReadyLimit;
    while (!process_->wait(20ms, {}) && std::chrono::steady_clock::now() < limit) {
      const auto reply = http::get({.url = url() + "/health", .timeouts = {.total = 5s}});
      if (reply && reply->head.status == 200) return;
    }
  }
  FAIL("the server did not become ready:\n" << log());
}

std::string NpmServer::url() const {
  return fmt::format("http://127.0.0.1:{}", port_);
}

std::string NpmServer::log() const {
  const auto text = base::read_file(folder_.path() / "server.log");
  return text ? *text : std::string();
}

}  // namespace sweep::test
