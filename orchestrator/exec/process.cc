#include "orchestrator/exec/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>
#include <thread>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/exec.h"
#include "orchestrator/diag/rules/file.h"

namespace sweep::exec {

namespace {

using std::chrono::milliseconds;
constexpr milliseconds kPollInterval{10};

bool is_plain(std::string_view text) {
  constexpr std::string_view kSafe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,@%+";
  return !text.empty() && text.find_first_not_of(kSafe) == std::string_view::npos;
}

std::string shell_word(std::string_view text) {
  if (is_plain(text)) return std::string(text);
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// Our environment with the command's changes.
std::vector<std::string> merged_environment(const CommandSpec& command) {
  std::vector<std::string> merged;
  for (char** item = environ; *item != nullptr; ++item) {
    const std::string_view text = *item;
    const std::string_view name = text.substr(0, text.find('='));
    const bool replaced = std::any_of(command.environment.begin(), command.environment.end(),
                                      [&](const auto& change) { return change.first == name; });
    const bool dropped = std::find(command.unset.begin(), command.unset.end(), name) != command.unset.end();
    if (!replaced && !dropped) merged.emplace_back(text);
  }
  for (const auto& [name, value] : command.environment) merged.push_back(fmt::format("{}={}", name, value));
  return merged;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

ExitStatus from_wait_status(int status) {
  if (WIFSIGNALED(status)) return {.code = 0, .signal = WTERMSIG(status)};
  return {.code = WEXITSTATUS(status), .signal = 0};
}

// Between fork and exec: only async-signal-safe calls.
[[noreturn]] void become(char* const* argv, char* const* envp, const ChildStreams& streams, int error_pipe,
                         pid_t parent) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  sigaction(SIGPIPE, &standard, nullptr);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int input = streams.input >= 0 ? streams.input : open("/dev/null", O_RDONLY);
  const bool ready = input >= 0 && getppid() == parent && dup2(input, STDIN_FILENO) >= 0 &&
                     dup2(streams.output, STDOUT_FILENO) >= 0 && dup2(streams.errors, STDERR_FILENO) >= 0;
  if (ready) execvpe(argv[0], argv, envp);
  const int error = errno;
  [[maybe_unused]] const ssize_t ignored = write(error_pipe, &error, sizeof error);
  _exit(127);
}

}  // namespace

std::string quoted_for_shell(const CommandSpec& command) {
  std::string text;
  for (const auto& [name, value] : command.environment) text += fmt::format("{}={} ", name, shell_word(value));
  for (const std::string& argument : command.argv) text += shell_word(argument) + " ";
  if (!text.empty()) text.pop_back();
  return text;
}

std::string ExitStatus::text() const {
  if (signal != 0) return fmt::format("killed by signal {} ({})", signal, ::strsignal(signal));
  return fmt::format("exit status {}", code);
}

diag::Result<Process> Process::start(const CommandSpec& command) {
  const std::string output_path = command.output.empty() ? "/dev/null" : command.output.string();
  const base::FileDescriptor output(::open(output_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!output.is_open())
    return diag::fail(diag::rule::file_unwritable, base::IoError{"open", output_path, errno}.text());
  return start(command, {.output = output.get(), .errors = output.get()});
}

diag::Result<Process> Process::start(const CommandSpec& command, const ChildStreams& streams) {
  SWEEPCTL_CHECK(!command.argv.empty());
  const auto cannot = [&](int error) {
    return diag::fail(
        diag::rule::exec_cannot_start,
        fmt::format("cannot start \"{}\": {}", command.argv.front(), std::generic_category().message(error)),
        "run `sweepctl doctor` to see what this host lacks");
  };
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return cannot(errno);
  base::FileDescriptor read_end(ends[0]);
  base::FileDescriptor write_end(ends[1]);

  std::vector<std::string> argument_texts = command.argv;
  std::vector<std::string> environment_texts = merged_environment(command);
  const std::vector<char*> arguments = pointers(argument_texts);
  const std::vector<char*> environment = pointers(environment_texts);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return cannot(errno);
  if (pid == 0) become(arguments.data(), environment.data(), streams, write_end.get(), parent);
  ::setpgid(pid, pid);  // also here, so that the group exists before anyone signals it

  write_end.reset();
  int error = 0;
  ssize_t got = 0;
  do {
    got = ::read(read_end.get(), &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  if (got == static_cast<ssize_t>(sizeof error)) {
    ::waitpid(pid, nullptr, 0);
    return cannot(error);
  }
  return Process(pid);
}

Process::Process(Process&& other) noexcept : pid_(std::exchange(other.pid_, -1)), status_(other.status_) {}

Process& Process::operator=(Process&& other) noexcept {
  if (this != &other) {
    if (pid_ > 0) stop(milliseconds(0));
    pid_ = std::exchange(other.pid_, -1);
    status_ = other.status_;
  }
  return *this;
}

Process::~Process() {
  if (pid_ > 0) stop(milliseconds(0));
}

std::optional<ExitStatus> Process::poll() {
  if (!status_) {
    int raw = 0;
    const pid_t reaped = ::waitpid(pid_, &raw, WNOHANG);
    if (reaped == pid_) status_ = from_wait_status(raw);
    if (reaped < 0 && errno == ECHILD) status_ = ExitStatus{.code = 127, .signal = 0};
  }
  return status_;
}

std::optional<ExitStatus> Process::wait(milliseconds limit, const std::stop_token& stop) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (true) {
    if (const auto status = poll()) return status;
    if (stop.stop_requested() || std::chrono::steady_clock::now() >= deadline) return std::nullopt;
    std::this_thread::sleep_for(kPollInterval);
  }
}

ExitStatus Process::stop(milliseconds grace) {
  if (!poll() && grace.count() > 0) {
    ::kill(-pid_, SIGTERM);
    wait(grace, {});
  }
  ::kill(-pid_, SIGKILL);  // also what the leader left behind
  while (!poll()) std::this_thread::sleep_for(milliseconds(1));
  pid_ = -1;
  return *status_;
}

diag::Result<ExitStatus> run(const CommandSpec& command, milliseconds limit, const std::stop_token& stop) {
  auto process = Process::start(command);
  if (!process) return diag::fail(std::move(process).error());
  if (const auto status = process->wait(limit, stop)) return *status;
  const bool interrupted = stop.stop_requested();
  process->stop(milliseconds(500));
  if (interrupted) return diag::fail(diag::rule::exec_interrupted, "interrupted", "");
  return diag::fail(diag::rule::exec_timeout,
                    fmt::format("\"{}\" did not end within {} s and was killed", command.argv.front(),
                                std::chrono::duration_cast<std::chrono::seconds>(limit).count()));
}

std::optional<uint64_t> start_time_of(pid_t pid) {
  const auto content = base::read_file(fmt::format("/proc/{}/stat", pid));
  if (!content) return std::nullopt;
  // Fields after the command name, which may itself hold blanks and parentheses; starttime is field 22, the command
  // name field 2 (proc(5)).
  const size_t name_end = content->rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::string_view rest = std::string_view(*content).substr(name_end + 1);
  for (int field = 3; field <= 22; ++field) {
    const size_t begin = rest.find_first_not_of(' ');
    if (begin == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(begin);
    const size_t end = std::min(rest.find(' '), rest.size());
    if (field == 22) {
      uint64_t value = 0;
      for (const char c : rest.substr(0, end)) {
        if (c < '0' || c > '9') return std::nullopt;
        value = value * 10 + static_cast<uint64_t>(c - '0');
      }
      return value;
    }
    rest.remove_prefix(end);
  }
  return std::nullopt;
}

}  // namespace sweep::exec
