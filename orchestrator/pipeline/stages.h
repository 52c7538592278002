// The stages of a run, one function each: from typed input to the stage's document in the run folder. A stage whose
// document is already there is not done again.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/engine/adapter.h"
#include "orchestrator/gate/build.h"
#include "orchestrator/pipeline/locations.h"
#include "orchestrator/pipeline/progress.h"
#include "orchestrator/pipeline/run.h"
#include "orchestrator/pipeline/run_folder.h"
#include "orchestrator/plan/job.h"
#include "orchestrator/sample/sample.h"

namespace sweep::pipeline {

// What every stage may use.
struct Line {
  const plan::Job& job;
  const engine::Framework& framework;
  const RunOptions& options;
  const Locations& locations;
  const RunFolder& folder;
  Progress& progress;
  diag::Diagnostics& diagnostics;
  std::stop_token stop;
};

// "8192 in / 256 out, concurrency 1, 7 drafts, acceptance length 5.7 (explicit)"
std::string describe_point(const plan::Job& job);

// plan.json: the job and the options that decide what is measured. On resume it must be the same.
diag::Result<diag::Done> record_plan(const Line& line);

// weights.json
struct WeightsOutcome {
  std::filesystem::path model_folder;
  nlohmann::json document;
};
diag::Result<WeightsOutcome> verify_weights(const Line& line);
// Where the entry's weights are or will be, and whether they are made by us if absent.
diag::Result<std::filesystem::path> weights_folder(const plan::Job& job, const RunOptions& options,
                                                   const Locations& locations);

// kernels.json: the build and its gate.
struct KernelsOutcome {
  gate::KernelBuild build;
  nlohmann::json document;
};
diag::Result<KernelsOutcome> prepare_kernels(const Line& line);

// engine.json, requests.jsonl, measurement.json: launch, warm up, measure, stop.
struct Measured {
  nlohmann::json engine;
  nlohmann::json measurement;
  std::vector<sample::Sample> samples;
};
diag::Result<Measured> measure(const Line& line, const WeightsOutcome& weights, const KernelsOutcome& kernels);

// verdict.json, result.json, agg_*.json, summary.md, SHA256SUMS
diag::Result<nlohmann::json> judge_and_bundle(const Line& line, const WeightsOutcome& weights,
                                              const KernelsOutcome& kernels, const Measured& measured);

// Runs `work` as a named stage: tells the progress how it went.
template <class T, class Work>
diag::Result<T> as_stage(Progress& progress, Stage stage, std::string_view detail, Work&& work) {
  progress.begin(stage, detail);
  diag::Result<T> result = work();
  if (!result) progress.fail(stage, result.error().message);
  return result;
}

}  // namespace sweep::pipeline
