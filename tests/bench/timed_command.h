// Programs run to their end and timed, for benchmarks.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace sweep::bench {

using Command = std::vector<std::string>;

struct Sample {
  double user_ms = 0;
  double wall_ms = 0;
  double rss_mib = 0;  // largest resident size
};

// Runs in `folder` with standard output in the file `output`. Nothing if it could not be started, was killed or ended
// with more than 1: that is for problems in the input, which are timed as well.
std::optional<Sample> run(const Command& command, const std::filesystem::path& folder,
                          const std::filesystem::path& output);

double median(std::vector<double> values);

// "AMD EPYC, 2 cores"
std::string machine();

}  // namespace sweep::bench
