// GPU telemetry of a run: recorded beside the load, kept in the run folder, and judged from there.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "orchestrator/judge/verdict.h"
#include "orchestrator/plan/job.h"
#include "orchestrator/telemetry/evaluate.h"
#include "orchestrator/telemetry/sampler.h"

namespace sweep::pipeline {

// Records where the job's engine runs on GPUs of this host and NVML is there. Otherwise it records why not.
class PowerRecording {
 public:
  // Looks at the GPUs before the engine is launched. `launched_here` is false for a server that someone else runs.
  PowerRecording(const plan::Job& job, bool launched_here, const std::string& library = telemetry::kNvmlLibrary);

  // Samples from now on. `engine` leads the engine's process group; it, its group and what they started are its own.
  void start(pid_t engine);

  // Writes power.csv into the run folder and gives what measurement.json says about it:
  // {"recorded":bool,"reason":text|null,"file","driver","gpus":[{index,uuid,name}],"instant_power","problems":[],
  //  "before_launch":[{gpu,memory_used_bytes,processes}]}
  diag::Result<nlohmann::json> finish(const std::filesystem::path& run_folder);

 private:
  telemetry::SamplerOptions options_;
  std::string reason_;  // why nothing is recorded
  nlohmann::json before_launch_ = nlohmann::json::array();
  std::unique_ptr<telemetry::Sampler> sampler_;
};

// What is known about the GPUs of a measured point.
struct PowerOutcome {
  std::optional<telemetry::PowerReport> report;
  std::optional<judge::Telemetry> telemetry;
  std::string reason;       // why there is none
  nlohmann::json document;  // of result.json
};

// Reads power.csv of a run folder. Problems of the file make the power invalid, they do not end the run.
PowerOutcome power_of(const plan::Job& job, const std::filesystem::path& run_folder, const nlohmann::json& measurement,
                      int64_t output_tokens);

}  // namespace sweep::pipeline
