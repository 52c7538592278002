#include "orchestrator/base/check.h"

#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "orchestrator/base/expected.h"
#include "tests/support/catch.h"

namespace sweep::base {

namespace {

struct Ended {
  int exit_code = -1;
  std::string errors;
};

// Runs `body` in a child process.
template <class Body>
Ended in_child(Body body) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    body();
    ::_exit(0);
  }
  ::close(ends[1]);
  Ended ended;
  char buffer[512];
  ssize_t got;
  while ((got = ::read(ends[0], buffer, sizeof buffer)) > 0) ended.errors.append(buffer, static_cast<size_t>(got));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status)) ended.exit_code = WEXITSTATUS(status);
  return ended;
}

}  // namespace

TEST_CASE("check: a broken invariant ends the process with 70 and says where") {
  const Ended ended = in_child([] { SWEEPCTL_CHECK(1 + 1 == 3); });
  CHECK(ended.exit_code == 70);
  CHECK(contains(ended.errors, "1 + 1 == 3"));
  CHECK(contains(ended.errors, "check_test.cc:"));
  CHECK(in_child([] { SWEEPCTL_CHECK(true); }).exit_code == 0);
}

TEST_CASE("expected: reading the wrong side is a broken invariant") {
  CHECK(in_child([] { Expected<int, std::string>(Unexpected{std::string("e")}).value(); }).exit_code == 70);
  CHECK(in_child([] { static_cast<void>(Expected<int, std::string>(5).error()); }).exit_code == 70);
}

TEST_CASE("expected: holds a value or an error, also when both have one type") {
  const Expected<std::string, std::string> value = std::string("v");
  const Expected<std::string, std::string> error = Unexpected{std::string("e")};
  CHECK((value.has_value() && *value == "v" && value->size() == 1));
  CHECK((!error && error.error() == "e"));
  Expected<std::unique_ptr<int>, int> moved = std::make_unique<int>(5);
  CHECK(*std::move(moved).value() == 5);
}

}  // namespace sweep::base
