#include "orchestrator/exec/marked.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>

#include "orchestrator/base/file.h"

namespace sweep::exec {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostEnvironmentBytes = uint64_t{4} << 20;

// Whether it still runs, rather than waiting to be reaped.
bool is_running(const fs::path& process) {
  constexpr uint64_t kMostBytes = 4096;
  const auto stat = base::read_file(process / "stat", kMostBytes);
  if (!stat) return false;
  // "PID (name) S ...", where the name may hold anything.
  const size_t name_end = stat->rfind(')');
  constexpr size_t kToState = 2;
  if (name_end == std::string::npos || name_end + kToState >= stat->size()) return false;
  const char state = (*stat)[name_end + kToState];
  return state != 'Z' && state != 'X';
}

bool has_mark(const fs::path& process, std::string_view variable) {
  const auto text = base::read_file(process / "environ", kMostEnvironmentBytes);
  if (!text) return false;
  std::string_view rest = *text;
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find('\0'));
    if (item == variable) return true;
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
  }
  return false;
}

}  // namespace

std::vector<pid_t> marked_processes(std::string_view mark) {
  return processes_with(fmt::format("{}={}", kMarkVariable, mark));
}

std::vector<pid_t> processes_with(std::string_view variable) {
  std::vector<pid_t> found;
  std::error_code error;
  for (fs::directory_iterator item("/proc", error), end; !error && item != end; item.increment(error)) {
    const std::string name = item->path().filename().string();
    pid_t pid = 0;
    const auto [last, problem] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (problem != std::errc() || last != name.data() + name.size() || pid == ::getpid()) continue;
    if (has_mark(item->path(), variable) && is_running(item->path())) found.push_back(pid);
  }
  return found;
}

size_t kill_marked(std::string_view mark, std::chrono::milliseconds limit) {
  if (mark.empty()) return 0;
  const auto deadline = std::chrono::steady_clock::now() + limit;
  size_t first = 0;
  for (std::vector<pid_t> left = marked_processes(mark); !left.empty(); left = marked_processes(mark)) {
    if (first == 0) first = left.size();
    for (const pid_t pid : left) ::kill(pid, SIGKILL);
    if (std::chrono::steady_clock::now() >= deadline) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return first;
}

}  // namespace sweep::exec
