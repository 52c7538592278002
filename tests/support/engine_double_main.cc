// An engine's program by its name: python3 -m sglang.launch_server, python3 -m atom.entrypoints.openai_server, vllm,
// trtllm-serve, sweepctl-embedded; or docker, which runs one of them outside of the caller's process group, as a daemon
// does. The script comes by environment:
//   DOUBLE_MISHAP          a name of engine_double.h
//   DOUBLE_FIRST_MEASURED  number of the first measured completion
//   DOUBLE_LAST_MEASURED   and of the last
//   DOUBLE_STEP_MS         that each verification step takes; unset: none
//   DOUBLE_FOLDER          of the docker double: one file a container, with the pid of its first process
//   DOUBLE_DIGEST          that it tells of every image; unset: it knows none
#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/base/file.h"
#include "orchestrator/digest/sha256.h"
#include "orchestrator/exec/marked.h"
#include "tests/support/engine_double.h"

namespace {

using namespace sweep;
namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

constexpr int kUsageError = 2;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// What follows `name`; empty if it is not there.
std::string behind(const Arguments& arguments, std::string_view name) {
  for (size_t i = 0; i + 1 < arguments.size(); ++i)
    if (arguments[i] == name) return arguments[i + 1];
  return {};
}

[[noreturn]] void wait_for_ever() {
  while (true) ::pause();
}

// What an engine leaves behind if nobody cares: a worker in its group, and a daemon in a session of its own. Neither
// ends by SIGTERM.
void start_helpers() {
  if (::fork() == 0) {
    ::signal(SIGTERM, SIG_IGN);
    wait_for_ever();
  }
  const pid_t between = ::fork();
  if (between == 0) {
    ::setsid();
    if (::fork() != 0) ::_exit(0);
    ::signal(SIGTERM, SIG_IGN);
    wait_for_ever();
  }
  ::waitpid(between, nullptr, 0);
}

int serve(test::EngineDoubleOptions options, const std::string& port_file) {
  start_helpers();
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);  // before any thread exists, so that only sigwait below takes them
  if (options.mishap == test::Mishap::kHangBeforeReady || options.mishap == test::Mishap::kMemoryAndHang)
    pthread_sigmask(SIG_UNBLOCK, &ends, nullptr);
  test::EngineDouble::announce(options);
  const test::EngineDouble engine(options);
  if (!port_file.empty() && !base::write_file_atomic(port_file, fmt::format("{}\n", engine.port())))
    return EXIT_FAILURE;
  int signal = 0;
  do {
    sigwait(&ends, &signal);
  } while (options.mishap == test::Mishap::kIgnoresTerm);
  ::_exit(EXIT_SUCCESS);  // as engines do that break off what is in flight
}

std::string container_variable(const std::string& name) {
  return "DOUBLE_CONTAINER=" + name;
}

fs::path container_file(const std::string& name) {
  return fs::path(variable("DOUBLE_FOLDER")) / name;
}

// To all processes in the container, as the end of a namespace does it.
void end_container(const std::string& name) {
  while (true) {
    const auto inside = exec::processes_with(container_variable(name));
    if (inside.empty()) return;
    for (const pid_t pid : inside) ::kill(pid, SIGKILL);
    ::usleep(1000);
  }
}

int docker_run(const Arguments& arguments, const char* self) {
  const std::string name = behind(arguments, "--name");
  const std::string entry = behind(arguments, "--entrypoint");
  size_t image = 0;
  while (image < arguments.size() && arguments[image] != "--entrypoint") ++image;
  image += 2;
  if (name.empty() || image >= arguments.size()) return kUsageError;
  const pid_t container = ::fork();
  if (container == 0) {
    ::setsid();
    ::unsetenv("SWEEPCTL_MARK");  // a daemon starts it, not we
    ::setenv("DOUBLE_CONTAINER", name.c_str(), 1);
    Arguments inner(arguments.begin() + static_cast<std::ptrdiff_t>(image) + 1, arguments.end());
    inner.insert(inner.begin(), entry);
    std::vector<char*> argv;
    for (std::string& argument : inner) argv.push_back(argument.data());
    argv.push_back(nullptr);
    ::execv(self, argv.data());
    ::_exit(kUsageError);
  }
  if (!base::write_file_atomic(container_file(name), fmt::format("{}\n", container))) return EXIT_FAILURE;
  int status = 0;
  ::waitpid(container, &status, 0);
  end_container(name);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int docker(const Arguments& arguments, const char* self) {
  const std::string verb = arguments.empty() ? "" : arguments[0];
  if (verb == "run") return docker_run(arguments, self);
  if (verb == "stop" || verb == "rm") end_container(arguments.back());
  if (verb == "rm") {
    std::error_code ignored;
    fs::remove(container_file(arguments.back()), ignored);
  }
  if (verb == "inspect") {
    const auto pid = base::read_file(container_file(arguments.back()));
    if (!pid) return EXIT_FAILURE;
    fmt::print("{}", *pid);
  }
  if (verb == "image") {
    const std::string digest = variable("DOUBLE_DIGEST");
    if (digest.empty()) return EXIT_FAILURE;
    fmt::print("[\"example/image@{}\"]\n", digest);
  }
  if (verb == "pull") {
    fmt::print(stderr, "Error response from daemon: manifest unknown\n");
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string program = fs::path(argv[0]).filename().string();
  const Arguments arguments(argv + 1, argv + argc);
  if (program == "docker") return docker(arguments, "/proc/self/exe");
  test::EngineDoubleOptions options;
  const std::string module = behind(arguments, "-m");
  std::string port = behind(arguments, "--port");
  if (program == "python3" && module == "sglang.launch_server") {
    options.dialect = test::Dialect::kSglang;
    options.model = behind(arguments, "--served-model-name");
  } else if (program == "python3" && module == "atom.entrypoints.openai_server") {
    options.dialect = test::Dialect::kAtom;
    options.model = behind(arguments, "--model");
    port = behind(arguments, "--server-port");
  } else if (program == "vllm") {
    options.dialect = test::Dialect::kVllm;
    options.model = behind(arguments, "--served-model-name");
  } else if (program == "trtllm-serve") {
    options.dialect = test::Dialect::kTrtllm;
    options.model = behind(arguments, "--served_model_name");
    if (!fs::exists(behind(arguments, "--extra_llm_api_options"))) return kUsageError;
  } else if (program == "sweepctl-embedded") {
    options.dialect = test::Dialect::kEmbedded;
    options.model = behind(arguments, "--served-model-name");
    options.kernels_sha256 = digest::sha256_file(behind(arguments, "--kernels")).value();
  } else {
    return kUsageError;
  }
  const auto mishap = test::parse_mishap(variable("DOUBLE_MISHAP"));
  if (!mishap) return kUsageError;
  options.mishap = *mishap;
  options.port = static_cast<int>(std::strtol(port.c_str(), nullptr, 10));
  options.first_measured = std::strtol(variable("DOUBLE_FIRST_MEASURED").c_str(), nullptr, 10);
  options.last_measured = std::strtol(variable("DOUBLE_LAST_MEASURED").c_str(), nullptr, 10);
  options.step = std::chrono::milliseconds(std::strtol(variable("DOUBLE_STEP_MS").c_str(), nullptr, 10));
  return serve(options, behind(arguments, "--port-file"));
}
