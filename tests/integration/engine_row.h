// One row of the fault matrix: an engine's double launched by the real stages, measured and judged.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "orchestrator/base/temp_dir.h"
#include "orchestrator/pipeline/stages.h"
#include "tests/support/engine_double.h"

namespace sweep::test {

inline constexpr int64_t kRowRequests = 4;
inline constexpr int64_t kRowWarmUp = 1;

struct RowResult {
  int code = 0;         // as `sweepctl run` would exit
  std::string rule;     // of the error, where there is no result
  std::string message;  // likewise
  std::string notes;    // likewise, one a line
  nlohmann::json result;
  std::set<std::string> failed;  // rules of the failed conditions
  std::string reasons;           // their texts, one a line
  std::vector<pid_t> left;       // processes of the row that still run

  // What is to be compared with a row's text.
  std::string found() const { return rule + "\n" + message + "\n" + reasons; }
};

// A folder in which engines' programs are doubles, with a model of made-up words. While it exists, PATH begins with it.
class EngineRows {
 public:
  EngineRows();
  ~EngineRows();

  struct Row {
    std::string framework;  // "sglang", ...
    Mishap mishap = Mishap::kNone;
    std::function<void(plan::Job&, pipeline::RunOptions&, pipeline::Locations&)> change = {};
    std::function<void(pipeline::Stage)> on_stage = {};  // called as each stage begins
    bool builds_kernels = false;  // builds and gates them as a run does; else they are said to have passed
  };
  RowResult run(const Row& row);

  int port() const { return port_; }
  const std::filesystem::path& folder() const { return folder_.path(); }
  std::filesystem::path last_run() const { return last_run_; }

 private:
  plan::Job job_of(const std::string& framework) const;

  base::TempDir folder_;
  std::string former_path_;
  int port_ = 0;
  int rows_ = 0;
  std::filesystem::path last_run_;
};

// A port of the loopback interface that is free now.
int free_port();

// Processes that still run with the row's variable in their environment.
std::vector<pid_t> left_of_row(const std::string& row);

}  // namespace sweep::test
