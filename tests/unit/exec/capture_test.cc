#include "orchestrator/exec/capture.h"

#include <cstdlib>

#include "orchestrator/diag/rules/exec.h"
#include "tests/support/catch.h"

using namespace sweep;
using namespace std::chrono_literals;

namespace {

diag::Result<exec::Captured> shell(const std::string& script, std::string_view input = {},
                                   const exec::CaptureLimits& limits = {}) {
  return exec::capture({.argv = {"sh", "-c", script}}, input, limits, {});
}

}  // namespace

TEST_CASE("capture: both streams come back apart, byte for byte, with the exit status") {
  const auto got = shell("printf 'a\\000b\\r\\n'; printf 'e\\n' >&2; exit 3").value();
  CHECK(got.output == std::string("a\0b\r\n", 5));
  CHECK(got.errors == "e\n");
  CHECK(got.status.code == 3);
}

TEST_CASE("capture: input larger than any pipe buffer reaches the child") {
  const std::string input(3u << 20, 'x');
  CHECK(shell("cat", input).value().output == input);
  CHECK(shell("true", input).value().status.ok());
}

TEST_CASE("capture: output up to the limit is a value, one byte more is a failure") {
  CHECK(shell("printf 12345678", {}, {.output_bytes = 8}).value().output == "12345678");
  const auto more = shell("printf 123456789", {}, {.output_bytes = 8});
  REQUIRE_FALSE(more.has_value());
  CHECK(more.error().rule == diag::rule::exec_output_too_large);
  const auto endless = shell("yes", {}, {.output_bytes = 1u << 20});
  REQUIRE_FALSE(endless.has_value());
  CHECK(endless.error().rule == diag::rule::exec_output_too_large);
}

TEST_CASE("capture: errors without end are cut, and the child still ends") {
  const auto got = shell("head -c 1000000 /dev/zero >&2; printf done").value();
  CHECK(got.errors.size() == 64u << 10);
  CHECK(got.output == "done");
}

TEST_CASE("capture: a program that runs too long is killed") {
  const auto got = shell("sleep 1000", {}, {.time = 100ms});
  REQUIRE_FALSE(got.has_value());
  CHECK(got.error().rule == diag::rule::exec_timeout);
}

TEST_CASE("capture: a stop request ends the wait") {
  std::stop_source source;
  source.request_stop();
  const auto got = exec::capture({.argv = {"sleep", "1000"}}, {}, {}, source.get_token());
  REQUIRE_FALSE(got.has_value());
  CHECK(got.error().rule == diag::rule::exec_interrupted);
}

TEST_CASE("capture: a descendant that keeps the pipe open does not hold the answer back") {
  const auto got = shell("sleep 1000 & printf done", {}, {.time = 30s}).value();
  CHECK(got.output == "done");
}

TEST_CASE("capture: a program that does not exist is a diagnostic") {
  const auto got = exec::capture({.argv = {"/nonexistent/program"}}, {}, {}, {});
  REQUIRE_FALSE(got.has_value());
  CHECK(got.error().rule == diag::rule::exec_cannot_start);
}

TEST_CASE("capture: variables named as unset do not reach the child") {
  ::setenv("SWEEPCTL_TEST_DROPPED", "1", 1);
  exec::CommandSpec command{.argv = {"sh", "-c", "printf '%s' \"${SWEEPCTL_TEST_DROPPED-absent}\""}};
  CHECK(exec::capture(command, {}, {}, {}).value().output == "1");
  command.unset = {"SWEEPCTL_TEST_DROPPED"};
  CHECK(exec::capture(command, {}, {}, {}).value().output == "absent");
  ::unsetenv("SWEEPCTL_TEST_DROPPED");
}
