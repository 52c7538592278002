#include "orchestrator/http/open_files.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "orchestrator/diag/rules/http.h"
#include "tests/support/catch.h"

namespace sweep::http {

namespace {

// What it returns in a child process with these limits; a hard limit that was lowered cannot be raised again.
int in_child_with(const rlimit& limit, const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::setrlimit(RLIMIT_NOFILE, &limit) == 0 ? body() : 99);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool can_open(int files) {
  for (int i = 0; i < files; ++i)
    if (::open("/dev/null", O_RDONLY) < 0) return false;
  return true;
}

}  // namespace

TEST_CASE("open files: the soft limit is raised to what the connections need") {
  CHECK(in_child_with({.rlim_cur = 64, .rlim_max = 1000}, [] {
          if (can_open(300)) return 1;
          for (int fd = 10; fd < 64; ++fd) ::close(fd);
          if (!make_room_for(300)) return 2;
          return can_open(300) ? 0 : 3;
        }) == 0);
}

TEST_CASE("open files: a limit that suffices stays, and a hard limit is used up when it is just enough") {
  const auto soft = [] {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur;
  };
  CHECK(in_child_with({.rlim_cur = 900, .rlim_max = 1000},
                      [&] { return make_room_for(10) && soft() == 900 ? 0 : 1; }) == 0);
  CHECK(in_child_with({.rlim_cur = 64, .rlim_max = 500}, [&] { return make_room_for(300) && soft() == 500 ? 0 : 1; }) ==
        0);
}

TEST_CASE("open files: a hard limit that is too low is said with the numbers, and nothing is changed") {
  CHECK(in_child_with({.rlim_cur = 64, .rlim_max = 200}, [] {
          const auto room = make_room_for(1024);
          if (room || room.error().rule != diag::rule::http_no_resources) return 1;
          if (!contains(room.error().message, "1024 connections at a time need ")) return 2;
          if (!contains(room.error().message, "the hard limit is 200")) return 3;
          if (!contains(room.error().help, "ulimit -Hn ")) return 4;
          rlimit limit{};
          ::getrlimit(RLIMIT_NOFILE, &limit);
          return limit.rlim_cur == 64 ? 0 : 5;
        }) == 0);
}

}  // namespace sweep::http
