// How the stages tell what they are doing. Stages never print.
#pragma once

#include <cstdint>
#include <string_view>

namespace sweep::pipeline {

enum class Stage : uint8_t {
  kLoad,
  kValidate,
  kPlan,
  kWeights,
  kBuildKernels,
  kGateKernels,
  kLaunch,
  kWarmUp,
  kMeasure,
  kJudge,
  kBundle,
  kSummarise,
};

// "load", "validate", ... as people read it.
std::string_view stage_name(Stage stage);

class Progress {
 public:
  virtual ~Progress() = default;
  virtual void begin(Stage stage, std::string_view detail) = 0;
  // Called often; `done` of `total` in units of the stage (bytes, requests).
  virtual void advance(Stage stage, int64_t done, int64_t total, std::string_view detail) = 0;
  virtual void end(Stage stage, std::string_view outcome) = 0;
  // The stage's result was already in the run folder.
  virtual void reuse(Stage stage, std::string_view outcome) = 0;
  virtual void fail(Stage stage, std::string_view reason) = 0;
};

}  // namespace sweep::pipeline
