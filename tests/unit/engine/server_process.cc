#include "tests/unit/engine/server_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>

#include "orchestrator/engine/embedded/make_model.h"
#include "tests/unit/engine/small_model.h"

namespace sweep::engine::embedded {

const std::filesystem::path& small_model_folder() {
  static const auto temp = base::TempDir::create().value();
  static const std::filesystem::path folder = [] {
    MakeModelOptions options;
    options.config = small_config();
    if (!make_model(temp.path() / "small", options)) throw std::runtime_error("cannot make the small model");
    return temp.path() / "small";
  }();
  return folder;
}

std::vector<std::string> serve_command(const std::filesystem::path& port_file,
                                       const std::vector<std::string>& further_arguments, const std::string& kernels) {
  std::vector<std::string> command = {SWEEPCTL_TEST_EMBEDDED,
                                      "serve",
                                      "--model",
                                      small_model_folder().string(),
                                      "--kernels",
                                      kernels,
                                      "--port-file",
                                      port_file.string(),
                                      "--max-model-len",
                                      "500",
                                      "--threads",
                                      "2"};
  command.insert(command.end(), further_arguments.begin(), further_arguments.end());
  return command;
}

pid_t start_process(const std::vector<std::string>& command, const std::filesystem::path& log) {
  std::vector<char*> arguments;
  for (const auto& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const base::FileDescriptor output(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(output.get(), 1);
    ::dup2(output.get(), 2);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  return pid;
}

ServerProcess::ServerProcess(const std::vector<std::string>& arguments, const std::string& kernels)
    : temp_(base::TempDir::create().value()) {
  const auto port_file = temp_.path() / "port";
  pid_ = start_process(serve_command(port_file, arguments, kernels), temp_.path() / "log");
  while (port_ == 0) {
    siginfo_t ended = {};
    if (::waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid != 0) return;
    if (const auto text = base::read_file(port_file)) {
      port_ = std::stoi(*text);
    } else {
      ::usleep(1000);  // a poll, not a guess: it ends with the file or with the process
    }
  }
}

ServerProcess::~ServerProcess() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void ServerProcess::signal(int number) const {
  ::kill(pid_, number);
}

int ServerProcess::wait() {
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return status;
}

std::string ServerProcess::log() const {
  const auto text = base::read_file(temp_.path() / "log");
  return text ? *text : std::string();
}

}  // namespace sweep::engine::embedded
