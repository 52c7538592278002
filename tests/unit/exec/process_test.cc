#include "orchestrator/exec/process.h"

#include <csignal>
#include <thread>

#include "orchestrator/base/file.h"
#include "orchestrator/base/temp_dir.h"
#include "orchestrator/diag/rules/exec.h"
#include "tests/support/catch.h"

using namespace sweep;
using namespace std::chrono_literals;

namespace {

std::string output_of(const exec::CommandSpec& command) {
  return base::read_file(command.output).value();
}

bool is_running(pid_t pid) {
  const auto status = base::read_file("/proc/" + std::to_string(pid) + "/stat");
  if (!status) return false;
  return status->substr(status->rfind(')') + 2, 1) != "Z";  // a zombie no longer runs
}

}  // namespace

TEST_CASE("exec: output of both streams lands in the log and the exit status is reported") {
  auto folder = base::TempDir::create().value();
  const exec::CommandSpec command{.argv = {"sh", "-c", "echo out; echo err >&2; exit 3"},
                                  .output = folder.path() / "log"};
  const auto status = exec::run(command, 10s, {}).value();
  CHECK(status.code == 3);
  CHECK(status.text() == "exit status 3");
  CHECK(output_of(command) == "out\nerr\n");
}

TEST_CASE("exec: arguments and environment reach the child unchanged, without a shell") {
  auto folder = base::TempDir::create().value();
  const exec::CommandSpec command{
      .argv = {"sh", "-c", "printf '%s|' \"$@\" \"$SWEEP_X\"", "sh", "a b", "$HOME", "`id`", ""},
      .environment = {{"SWEEP_X", "x;y"}},
      .output = folder.path() / "log"};
  REQUIRE(exec::run(command, 10s, {}).value().ok());
  CHECK(output_of(command) == "a b|$HOME|`id`||x;y|");
}

TEST_CASE("exec: a program that does not exist is a diagnostic, not a child that fails later") {
  const auto process = exec::Process::start({.argv = {"/nonexistent/program"}});
  REQUIRE_FALSE(process.has_value());
  CHECK(process.error().rule == diag::rule::exec_cannot_start);
  CHECK(contains(process.error().message, "/nonexistent/program"));
}

TEST_CASE("exec: a child that runs too long is killed with what it started") {
  auto folder = base::TempDir::create().value();
  const exec::CommandSpec command{.argv = {"sh", "-c", "trap '' TERM; sleep 1000 & echo $!; wait"},
                                  .output = folder.path() / "log"};
  const auto status = exec::run(command, 300ms, {});
  REQUIRE_FALSE(status.has_value());
  CHECK(status.error().rule == diag::rule::exec_timeout);
  const pid_t grandchild = std::stoi(output_of(command));
  for (int i = 0; i < 500 && is_running(grandchild); ++i) std::this_thread::sleep_for(10ms);
  CHECK_FALSE(is_running(grandchild));
}

TEST_CASE("exec: a stop request ends the child") {
  std::stop_source source;
  std::jthread asks([&source] { source.request_stop(); });
  const auto status = exec::run({.argv = {"sleep", "1000"}}, 100s, source.get_token());
  REQUIRE_FALSE(status.has_value());
  CHECK(status.error().rule == diag::rule::exec_interrupted);
}

TEST_CASE("exec: death by a signal is told from an exit status") {
  auto process = exec::Process::start({.argv = {"sleep", "1000"}}).value();
  CHECK_FALSE(process.poll().has_value());
  CHECK(exec::start_time_of(process.pid()).has_value());
  ::kill(process.pid(), SIGKILL);
  const auto status = process.wait(10s, {});
  REQUIRE(status.has_value());
  CHECK(status->signal == SIGKILL);
  CHECK(contains(status->text(), "killed by signal 9"));
}

TEST_CASE("exec: destroying a process kills it") {
  pid_t pid = 0;
  {
    auto process = exec::Process::start({.argv = {"sleep", "1000"}}).value();
    pid = process.pid();
  }
  CHECK_FALSE(is_running(pid));
}

TEST_CASE("exec: the command is shown quoted for a shell") {
  CHECK(exec::quoted_for_shell({.argv = {"prog", "--x=1", "two words", "it's"}, .environment = {{"A", "b c"}}}) ==
        "A='b c' prog --x=1 'two words' 'it'\\''s'");
}
