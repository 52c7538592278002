// Closed loop: a fixed number of requests in flight; the next one is sent when one has ended. Nothing is retried, and a
// request that fails is recorded like any other.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/loadgen/load_spec.h"
#include "orchestrator/sample/metrics.h"
#include "orchestrator/sample/sample.h"

namespace sweep::loadgen {

// Takes each sample as its request ends. A failure ends the load.
using SampleSink = std::function<diag::Result<diag::Done>(const sample::Sample&)>;

struct Progress {
  sample::Phase phase = sample::Phase::kWarmUp;
  int64_t finished = 0;  // of this phase
  int64_t total = 0;     // of this phase
  int64_t in_flight = 0;
  int64_t failed = 0;         // of this phase
  int64_t output_tokens = 0;  // received in this phase so far
};
// Called after each request, and at most about ten times a second in between.
using ProgressSink = std::function<void(const Progress&)>;

struct Measurement {
  std::vector<sample::Sample> samples;   // in the order in which they ended, warm-up included
  diag::Diagnostics problems;            // every failed request, by phase and sequence
  std::optional<sample::Window> window;  // of the measured phase; absent if none of it was sent
  int64_t not_sent = 0;                  // measured requests that were given up on or cancelled before being sent
  bool cancelled = false;
};

// Runs on the calling thread until all requests have ended. Fails only if the spec is wrong, the system has no room for
// connections, or the sink fails: a server that does not answer is a measurement with problems. When `stop` is
// requested, requests in flight end as cancelled, are recorded, and the measurement so far is returned.
diag::Result<Measurement> run_closed_loop(const LoadSpec& spec, const SampleSink& sink,
                                          const ProgressSink& progress = {}, const std::stop_token& stop = {});

}  // namespace sweep::loadgen
