// `plan full-sweep` and `validate` over the peer's master files, against the peer's own generator on the same machine:
//
//   plan-bench --peer DIR [--sweepctl PROGRAM] [--runs N]
//
// DIR is a checkout of InferenceX with configs/ and utils/matrix_logic/; its generator needs python3 with pydantic and
// PyYAML. `validate` is timed twice: over the configuration files alone, which is what the peer checks, and in the
// checkout, where it opens every recipe that they name. The programs take turns, so that a busy machine slows all of
// them alike. Medians are of user CPU time.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/base/file.h"
#include "orchestrator/base/temp_dir.h"
#include "tests/bench/timed_command.h"

namespace {

namespace fs = std::filesystem;
using namespace sweep::bench;

struct Contender {
  std::string name;
  Command command;
  fs::path folder;
  int runs_per_round = 1;
  std::vector<double> user_ms = {};
  std::vector<double> wall_ms = {};
  double rss_mib = 0;
};

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

// `alone` holds nothing but the configuration files.
std::vector<Contender> contenders(const Options& options, const fs::path& alone) {
  const std::vector<std::string> masters{"configs/nvidia-master.yaml", "configs/amd-master.yaml"};
  Command peer{"python3", "utils/matrix_logic/generate_sweep_configs.py", "full-sweep", "--config-files"};
  Command plan{options.sweepctl, "plan", "full-sweep", "--runner-config", "configs/runners.yaml", "--config-files"};
  Command validate{options.sweepctl, "validate", "configs/runners.yaml"};
  for (Command* command : {&peer, &plan, &validate}) command->insert(command->end(), masters.begin(), masters.end());
  constexpr int kQuickRuns = 20;
  return {{"peer's full-sweep", peer, options.peer},
          {"plan full-sweep", plan, alone, kQuickRuns},
          {"validate", validate, alone, kQuickRuns},
          {"validate, recipes too", validate, options.peer, kQuickRuns}};
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
  const fs::path alone = folder->path() / "alone";
  std::error_code error;
  fs::create_directories(alone, error);
  fs::copy(options->peer / "configs", alone / "configs", error);
  if (error) {
    fmt::print(stderr, "cannot copy {}: {}\n", (options->peer / "configs").string(), error.message());
    return 3;
  }
  std::vector<Contender> all = contenders(*options, alone);
  for (int round = 0; round < options->rounds; ++round) {
    for (size_t i = 0; i < all.size(); ++i) {
      for (int turn = 0; turn < all[i].runs_per_round; ++turn) {
        const auto sample = run(all[i].command, all[i].folder, folder->path() / std::to_string(i));
        if (!sample) {
          fmt::print(stderr, "failed in {}: {}\n", all[i].folder.string(), fmt::join(all[i].command, " "));
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
  fmt::print("{}\n\n{:<22} {:>6} {:>12} {:>12} {:>10} {:>10}\n", machine(), "command", "runs", "user ms", "wall ms",
             "RSS MiB", "ratio");
  for (const Contender& c : all)
    fmt::print("{:<22} {:>6} {:>12.1f} {:>12.1f} {:>10.1f} {:>10.1f}\n", c.name, c.user_ms.size(), median(c.user_ms),
               median(c.wall_ms), c.rss_mib, median(all[0].user_ms) / median(c.user_ms));
  fmt::print("\nratio: user CPU time of the peer / of the command, medians; the rows of both plans {}\n",
             same ? "are the same bytes" : "DIFFER");
  return same ? 0 : 1;
}
