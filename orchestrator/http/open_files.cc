#include "orchestrator/http/open_files.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "orchestrator/diag/rules/http.h"

namespace sweep::http {

namespace {

// Files of the program itself, counted now and later: results, certificates, libraries.
constexpr int64_t kOthers = 64;
// While it looks up a host's name, libcurl has a pair of sockets beside the connection.
constexpr int64_t kMostPerConnection = 3;

int64_t open_files() {
  std::error_code failed;
  int64_t count = 0;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", failed), end; !failed && entry != end;
       entry.increment(failed))
    ++count;
  return count;
}

}  // namespace

diag::Result<diag::Done> make_room_for(int64_t connections) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return diag::Done{};  // connecting will tell
  const int64_t others = open_files() + kOthers;
  const auto needed = static_cast<rlim_t>(connections + others);
  const auto wanted = static_cast<rlim_t>(connections * kMostPerConnection + others);
  if (limit.rlim_cur >= wanted) return diag::Done{};
  if (limit.rlim_max < needed)
    return diag::fail(diag::rule::http_no_resources,
                      fmt::format("{} connections at a time need {} open files, the hard limit is {}", connections,
                                  needed, limit.rlim_max),
                      fmt::format("raise the limit before the start (\"ulimit -Hn {}\", LimitNOFILE of a service, "
                                  "--ulimit nofile={} of a container), or lower the concurrency",
                                  wanted, wanted));
  limit.rlim_cur = std::max(limit.rlim_cur, std::min(wanted, limit.rlim_max));
  ::setrlimit(RLIMIT_NOFILE, &limit);  // below the hard limit, which everybody may
  return diag::Done{};
}

}  // namespace sweep::http
