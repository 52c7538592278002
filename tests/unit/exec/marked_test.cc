#include "orchestrator/exec/marked.h"

#include <unistd.h>

#include <string>

#include "orchestrator/exec/process.h"
#include "tests/support/catch.h"

using namespace sweep;
using namespace std::chrono_literals;

namespace {

std::string unique_mark() {
  static int count = 0;
  return "marked-test-" + std::to_string(::getpid()) + "-" + std::to_string(++count);
}

void wait_for_marked(const std::string& mark, size_t count) {
  while (exec::marked_processes(mark).size() != count) ::usleep(1000);
}

}  // namespace

TEST_CASE("marked: a process that left its group and its session is still found, and ended") {
  const std::string mark = unique_mark();
  auto process =
      exec::Process::start({.argv = {"setsid", "sleep", "1000"}, .environment = {{exec::kMarkVariable, mark}}}).value();
  wait_for_marked(mark, 1);
  // setsid forks where it leads a group: then the child is in a session of its own.
  process.stop(0ms);
  CHECK(exec::kill_marked(mark) <= 1);
  CHECK(exec::marked_processes(mark).empty());
}

TEST_CASE("marked: other marks, and marks that begin alike, are left alone") {
  const std::string mark = unique_mark();
  auto process =
      exec::Process::start({.argv = {"sleep", "1000"}, .environment = {{exec::kMarkVariable, mark + "0"}}}).value();
  wait_for_marked(mark + "0", 1);
  CHECK(exec::kill_marked(mark) == 0);
  CHECK(exec::kill_marked("") == 0);
  CHECK_FALSE(process.poll().has_value());
}
