#include "orchestrator/loadgen/closed_loop.h"

#include <algorithm>
#include <utility>

#include "orchestrator/loadgen/load.h"

namespace sweep::loadgen {

diag::Result<Measurement> run_closed_loop(const LoadSpec& spec, const SampleSink& sink, const ProgressSink& progress,
                                          const std::stop_token& stop) {
  auto load = Load::open(spec, spec.concurrency, sink, progress, stop);
  if (!load) return diag::fail(std::move(load).error());
  const auto run_phase = [&](sample::Phase phase, int64_t requests) {
    load->begin(phase, requests);
    for (int64_t i = 0; i < std::min(spec.concurrency, requests); ++i) load->send_next();
    load->drain([&] { load->send_next(); });  // at once: the gap is part of the load
  };
  if (spec.warmup_requests > 0) run_phase(sample::Phase::kWarmUp, spec.warmup_requests);
  run_phase(sample::Phase::kMeasured, spec.requests);
  return load->finish();
}

}  // namespace sweep::loadgen
