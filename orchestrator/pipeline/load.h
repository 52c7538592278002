// The load of a run, from its options: which requests, sent how.
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/loadgen/closed_loop.h"
#include "orchestrator/loadgen/load_spec.h"
#include "orchestrator/pipeline/stages.h"

namespace sweep::pipeline {

// Why the options do not fit the entry; nothing if they do.
std::optional<diag::Diagnostic> load_refusal(const plan::Job& job, const RunOptions& options);

// "closed loop, 4 in flight", "open loop, 2.5 requests/s at fixed intervals"
std::string describe_load(const plan::Job& job, const RunOptions& options);

// The options that decide what is sent when, for plan.json: {"mode", "request_rate", "arrivals", "api"}.
nlohmann::json load_options(const RunOptions& options);

// The limits of a measured request: until its first token as given, between two tokens a fifth of that, twice as much
// in all. None is 0, which would be no limit.
http::Timeouts request_timeouts(std::chrono::milliseconds first_token);

// Asks the server, if that is needed for prompts of exact length.
diag::Result<loadgen::LoadSpec> load_spec(const Line& line, const std::string& base_url, const WeightsOutcome& weights);

// What was sent: load_options() and "template_tokens", null where prompts are token ids.
nlohmann::json load_document(const RunOptions& options, const loadgen::LoadSpec& spec);

// Closed or open loop, as the options say.
diag::Result<loadgen::Measurement> run_load(const Line& line, const loadgen::LoadSpec& spec,
                                            const loadgen::SampleSink& sink, const loadgen::ProgressSink& progress);

}  // namespace sweep::pipeline
