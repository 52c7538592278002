// Child processes: started without a shell, in a process group of their own, killed whole.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/diag/diagnostic.h"

namespace sweep::exec {

struct CommandSpec {
  std::vector<std::string> argv;                                      // argv[0] is looked up in PATH if it has no slash
  std::vector<std::pair<std::string, std::string>> environment = {};  // added to ours, replacing what is there
  std::filesystem::path output = {};    // stdout and stderr are appended here; empty = /dev/null
  std::vector<std::string> unset = {};  // variables of ours that the child must not see
};

// Open descriptors that become the standard streams of a child. Input below 0 is /dev/null.
struct ChildStreams {
  int input = -1;
  int output = -1;
  int errors = -1;
};

// The command as one would type it, for people to read and copy; never executed.
std::string quoted_for_shell(const CommandSpec& command);

struct ExitStatus {
  int code = 0;    // of exit(), if signal is 0
  int signal = 0;  // that ended the process

  bool ok() const { return code == 0 && signal == 0; }
  // "exit status 3", "killed by signal 9 (Killed)"
  std::string text() const;
};

// A running child. It leads its own process group and dies with the thread that started it (so after a kill -9 of
// sweepctl, which no handler can see). Destroying the object kills the group.
class Process {
 public:
  static diag::Result<Process> start(const CommandSpec& command);
  // With these streams in place of `command.output`; they stay the caller's.
  static diag::Result<Process> start(const CommandSpec& command, const ChildStreams& streams);

  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();

  pid_t pid() const { return pid_; }

  // Nothing while it runs.
  std::optional<ExitStatus> poll();

  // Nothing if it still runs when the time is over or stop was requested.
  std::optional<ExitStatus> wait(std::chrono::milliseconds limit, const std::stop_token& stop);

  // SIGTERM to the group, SIGKILL to what is left of it after `grace`.
  ExitStatus stop(std::chrono::milliseconds grace);

 private:
  explicit Process(pid_t pid) : pid_(pid) {}

  pid_t pid_ = -1;
  std::optional<ExitStatus> status_;
};

// Runs to the end. Fails with exec/cannot-start, exec/timeout or exec/interrupted; a bad exit status is a value.
diag::Result<ExitStatus> run(const CommandSpec& command, std::chrono::milliseconds limit, const std::stop_token& stop);

// Identifies a process across the reuse of pids: start time in clock ticks since boot, from /proc.
std::optional<uint64_t> start_time_of(pid_t pid);

}  // namespace sweep::exec
