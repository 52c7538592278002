// result.json: everything that is known about one measured point. The format is versioned;
// orchestrator/report/README.md documents each key.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/judge/verdict.h"
#include "orchestrator/plan/job.h"
#include "orchestrator/sample/metrics.h"

namespace sweep::report {

inline constexpr int kResultVersion = 1;

// How the requests were sent.
struct Load {
  std::optional<double> request_rate = {};      // of an open loop, per second; absent: closed loop
  std::string arrivals = {};                    // of an open loop: "fixed" or "poisson"
  std::string api = "completions";              // or "chat"
  std::optional<int64_t> template_tokens = {};  // of "chat": what the server adds to each prompt
};

// Of the measurement's record (measurement.json); closed loop where it says nothing.
Load load_from_json(const nlohmann::json& measurement);

struct Record {
  const plan::Job& job;
  const sample::Summary& summary;
  const judge::Verdict& verdict;
  std::optional<judge::Realised> acceptance;
  std::vector<judge::Window> windows;
  std::vector<int64_t> accepted_per_position;
  int64_t planned_requests = 0;
  uint64_t seed = 0;
  Load load = {};
  nlohmann::json engine;      // name, version, command, what the server says of itself
  nlohmann::json weights;     // of the verification report
  nlohmann::json kernels;     // of the build and the gate
  nlohmann::json provenance;  // times, host, checkout
  nlohmann::json power;       // of the telemetry
};

nlohmann::json result_document(const Record& record);

// The part of the document that follows from the requests alone: latency_ms, throughput, and counts of workload.
nlohmann::json request_figures(const sample::Summary& summary);

// What the figures do not cover, one sentence each.
std::vector<std::string> scope_statements(const plan::Job& job, const nlohmann::json& kernels);

// The flat fields of the peer's aggregate files, so that existing dashboards can read the point: seconds instead of
// milliseconds, throughput per GPU. A run without a GPU has no per-GPU figures.
nlohmann::json aggregate_document(const Record& record);

}  // namespace sweep::report
