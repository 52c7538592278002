// From what the stages recorded to the verdict. The same for a live run and for a bundle that is looked at again.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <vector>

#include "orchestrator/judge/verdict.h"
#include "orchestrator/pipeline/power.h"
#include "orchestrator/plan/job.h"
#include "orchestrator/sample/sample.h"

namespace sweep::pipeline {

struct Recorded {
  const plan::Job& job;
  std::span<const sample::Sample> samples;  // warm-up included
  const nlohmann::json& engine;             // engine.json
  const nlohmann::json& weights;            // weights.json
  const nlohmann::json& kernels;            // kernels.json
  const nlohmann::json& measurement;        // measurement.json
  const PowerOutcome& power;
};

struct Judged {
  judge::Verdict verdict;
  std::optional<judge::Realised> acceptance;  // nothing if the engine tells nothing
  std::vector<judge::Window> windows;
  std::vector<int64_t> accepted_per_position;
};

// Fails if counters or framework cannot be understood.
diag::Result<Judged> judge_recorded(const Recorded& recorded);

}  // namespace sweep::pipeline
