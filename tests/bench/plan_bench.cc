// `plan full-sweep` and `validate` over the peer's master files, against the peer's own generator on the same machine:
//
//   plan-bench --peer DIR [--sweepctl PROGRAM] [--runs N]
//
// DIR is a checkout of InferenceX with configs/ and utils/matrix_logic/; its generator needs python3 with pydantic and
// PyYAML. The programs take turns, so that a busy machine slows all of them alike. Medians are of user CPU time.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/base/file.h"
#include "orchestrator/base/temp_dir.h"

namespace {

namespace fs = std::filesystem;
using Command = std::vector<std::string>;

struct Sample {
  double user_ms = 0;
  double wall_ms = 0;
  double rss_mib = 0;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

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

// Nothing if the command failed; warnings of `validate` are not a failure.
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

struct Contender {
  std::string name;
  Command command;
  int runs_per_round = 1;
  std::vector<double> user_ms = {};
  std::vector<double> wall_ms = {};
  double rss_mib = 0;
};

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown processor";
}

struct Options {
  fs::path peer;
  fs::path sweepctl;
  int rounds = 5;
};

std::optional<Options> parse(int argc, char** argv) {
  Options options{.peer = {}, .sweepctl = fs::canonical("/proc/self/exe").parent_path() / "sweepctl"};
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--peer")
      options.peer = fs::absolute(argv[i + 1]);
    else if (name == "--sweepctl")
      options.sweepctl = fs::absolute(argv[i + 1]);
    else if (name == "--runs")
      options.rounds = std::max(1, std::atoi(argv[i + 1]));
    else
      return std::nullopt;
  }
  if (argc % 2 == 0 || options.peer.empty()) return std::nullopt;
  return options;
}

std::vector<Contender> contenders(const Options& options) {
  const std::vector<std::string> masters{"configs/nvidia-master.yaml", "configs/amd-master.yaml"};
  Command peer{"python3", "utils/matrix_logic/generate_sweep_configs.py", "full-sweep", "--config-files"};
  Command plan{options.sweepctl, "plan", "full-sweep", "--runner-config", "configs/runners.yaml", "--config-files"};
  Command validate{options.sweepctl, "validate", "configs/runners.yaml"};
  for (Command* command : {&peer, &plan, &validate}) command->insert(command->end(), masters.begin(), masters.end());
  constexpr int kQuickRuns = 20;
  return {{"peer's full-sweep", peer}, {"plan full-sweep", plan, kQuickRuns}, {"validate", validate, kQuickRuns}};
}

}  // namespace

int main(int argc, char** argv) {
  const auto options = parse(argc, argv);
  if (!options) {
    fmt::print(stderr, "usage: plan-bench --peer DIR [--sweepctl PROGRAM] [--runs N]\n");
    return 2;
  }
  const auto folder = sweep::base::TempDir::create();
  if (!folder) return 3;
  std::vector<Contender> all = contenders(*options);
  for (int round = 0; round < options->rounds; ++round) {
    for (size_t i = 0; i < all.size(); ++i) {
      for (int turn = 0; turn < all[i].runs_per_round; ++turn) {
        const auto sample = run(all[i].command, options->peer, folder->path() / std::to_string(i));
        if (!sample) {
          fmt::print(stderr, "failed in {}: {}\n", options->peer.string(), fmt::join(all[i].command, " "));
          return 3;
        }
        all[i].user_ms.push_back(sample->user_ms);
        all[i].wall_ms.push_back(sample->wall_ms);
        all[i].rss_mib = std::max(all[i].rss_mib, sample->rss_mib);
      }
    }
  }
  const auto peer_rows = sweep::base::read_file(folder->path() / "0");
  const auto our_rows = sweep::base::read_file(folder->path() / "1");
  const bool same = peer_rows && our_rows && *peer_rows == *our_rows;
  fmt::print("{}\n\n{:<20} {:>6} {:>12} {:>12} {:>10} {:>10}\n", cpu_model(), "command", "runs", "user ms", "wall ms",
             "RSS MiB", "ratio");
  for (const Contender& c : all)
    fmt::print("{:<20} {:>6} {:>12.1f} {:>12.1f} {:>10.1f} {:>10.1f}\n", c.name, c.user_ms.size(), median(c.user_ms),
               median(c.wall_ms), c.rss_mib, median(all[0].user_ms) / median(c.user_ms));
  fmt::print("\nratio: user CPU time of the peer / of the command, medians; the rows of both plans {}\n",
             same ? "are the same bytes" : "DIFFER");
  return same ? 0 : 1;
}
