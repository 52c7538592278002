#include "tests/bench/timed_command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>

namespace sweep::bench {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void exec_in(const Command& command, const fs::path& folder, const fs::path& output) {
  std::vector<char*> argv;
  for (const std::string& argument : command) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const int out = ::open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int null = ::open("/dev/null", O_WRONLY);
  if (::chdir(folder.c_str()) == 0 && ::dup2(out, STDOUT_FILENO) >= 0 && ::dup2(null, STDERR_FILENO) >= 0)
    ::execvp(argv[0], argv.data());
  ::_exit(127);
}

}  // namespace

std::optional<Sample> run(const Command& command, const fs::path& folder, const fs::path& output) {
  const auto begin = std::chrono::steady_clock::now();
  const pid_t child = ::fork();
  if (child == 0) exec_in(command, folder, output);
  int status = 0;
  rusage usage{};
  if (child < 0 || ::wait4(child, &status, 0, &usage) != child) return std::nullopt;
  if (!WIFEXITED(status) || WEXITSTATUS(status) > 1) return std::nullopt;
  const std::chrono::duration<double, std::milli> wall = std::chrono::steady_clock::now() - begin;
  return Sample{
      .user_ms = static_cast<double>(usage.ru_utime.tv_sec) * 1e3 + static_cast<double>(usage.ru_utime.tv_usec) / 1e3,
      .wall_ms = wall.count(),
      .rss_mib = static_cast<double>(usage.ru_maxrss) / 1024};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::string machine() {
  std::string name = "unknown processor";
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) name = line.substr(line.find(':') + 2);
  return fmt::format("{}, {} cores", name, std::thread::hardware_concurrency());
}

}  // namespace sweep::bench
