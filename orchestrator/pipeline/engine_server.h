// The server that a job is measured on: started here, or already up.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/engine/running.h"
#include "orchestrator/loadgen/load_spec.h"
#include "orchestrator/pipeline/stages.h"

namespace sweep::pipeline {

// The command that launches the job's engine with the chosen launcher.
diag::Result<engine::Launch> render_launch(const engine::Framework& framework, const engine::LaunchRequest& request,
                                           Launcher launcher);

struct Server {
  std::unique_ptr<engine::RunningEngine> engine;  // null for a server that someone else runs
  std::string base_url;
  std::string served_model;  // as /v1/models lists it
  nlohmann::json document;   // of engine.json
};

// Launches, or checks the server that is already up.
diag::Result<Server> open_server(const Line& line, const WeightsOutcome& weights, const KernelsOutcome& kernels);

// One request of the measured shape, which must come back. An engine that died of it is what is reported.
diag::Result<diag::Done> probe_server(const Line& line, Server& server, const loadgen::LoadSpec& spec);

}  // namespace sweep::pipeline
