#include "orchestrator/pipeline/progress.h"

namespace sweep::pipeline {

std::string_view stage_name(Stage stage) {
  switch (stage) {
    case Stage::kLoad:
      return "load";
    case Stage::kValidate:
      return "validate";
    case Stage::kPlan:
      return "plan";
    case Stage::kWeights:
      return "weights";
    case Stage::kBuildKernels:
      return "kernels";
    case Stage::kGateKernels:
      return "gate";
    case Stage::kLaunch:
      return "engine";
    case Stage::kWarmUp:
      return "warm-up";
    case Stage::kMeasure:
      return "measure";
    case Stage::kJudge:
      return "judge";
    case Stage::kBundle:
      return "bundle";
    case Stage::kSummarise:
      return "summary";
  }
  return "";
}

}  // namespace sweep::pipeline
