// The folder of one run of one job: a file per finished stage, each whole or absent.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/diagnostic.h"

namespace sweep::pipeline {

inline constexpr int kStageFileVersion = 1;

class RunFolder {
 public:
  // Makes the folder, or takes an existing one if it holds no run (or `resume` is set), and locks it against other
  // processes until the object is destroyed.
  static diag::Result<RunFolder> open(const std::filesystem::path& path, bool resume);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path file(std::string_view name) const { return path_ / name; }

  // A stage's document as it was given to write(); nothing if the stage is not finished. Fails if the file cannot be
  // understood.
  diag::Result<std::optional<nlohmann::json>> read(std::string_view name) const;

  // Finishes a stage. Adds schema_version and tool_version.
  diag::Result<diag::Done> write(std::string_view name, nlohmann::json document) const;

  diag::Result<diag::Done> write_text(std::string_view name, std::string_view text) const;

  // Moves what a broken-off measurement left behind into attempt-N/, so that nothing is lost and nothing is mixed.
  diag::Result<diag::Done> set_attempt_aside() const;

 private:
  RunFolder(std::filesystem::path path, base::FileDescriptor lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  std::filesystem::path path_;
  base::FileDescriptor lock_;
};

// Names of the stage files, in the order in which they appear.
namespace stage_file {
inline constexpr const char* kPlan = "plan.json";
inline constexpr const char* kWeights = "weights.json";
inline constexpr const char* kKernels = "kernels.json";
inline constexpr const char* kEngine = "engine.json";
inline constexpr const char* kEngineLog = "engine.log";
inline constexpr const char* kRequestsPartial = "requests.partial.jsonl";
inline constexpr const char* kRequests = "requests.jsonl";
inline constexpr const char* kMeasurement = "measurement.json";
inline constexpr const char* kPower = "power.csv";
// What the engine answered at both ends of the measured window, as it came; those it has.
inline constexpr const char* kCountersBefore = "counters-before.txt";
inline constexpr const char* kCountersAfter = "counters-after.txt";
inline constexpr const char* kStatisticsBefore = "statistics-before.json";
inline constexpr const char* kStatisticsAfter = "statistics-after.json";
inline constexpr const char* kVerdict = "verdict.json";
inline constexpr const char* kResult = "result.json";
inline constexpr const char* kSummary = "summary.md";
inline constexpr const char* kSums = "SHA256SUMS";
}  // namespace stage_file

}  // namespace sweep::pipeline
