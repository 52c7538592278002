// Open loop: requests are sent on a schedule, whether or not earlier ones were answered. Latencies count from the
// scheduled time, so that a client or server which falls behind does not look faster for it.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string_view>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/loadgen/closed_loop.h"
#include "orchestrator/loadgen/load_spec.h"

namespace sweep::loadgen {

enum class Spacing : uint8_t {
  kFixed,    // one request every 1 / rate, the first at once
  kPoisson,  // independent exponential gaps of that mean
};

std::string_view spacing_name(Spacing spacing);  // "fixed", "poisson"

struct Arrivals {
  double per_second = 1;  // above 0, at most a million
  Spacing spacing = Spacing::kFixed;
};

// When each request is due, in nanoseconds from the start of the measured phase; ascending. The same arguments give the
// same times, and more requests leave the first ones as they are.
std::vector<int64_t> arrival_times(const Arrivals& arrivals, uint64_t seed, int64_t requests);

// Like run_closed_loop(), with the measured requests on a schedule: the warm-up is a closed loop. One that falls due
// while the client is busy is sent as soon as it can be; how late shows in its sample (sent - scheduled). The number in
// flight has no limit: there must be room for as many connections as there are requests. `concurrency` is that of the
// warm-up.
diag::Result<Measurement> run_open_loop(const LoadSpec& spec, const Arrivals& arrivals, const SampleSink& sink,
                                        const ProgressSink& progress = {}, const std::stop_token& stop = {});

}  // namespace sweep::loadgen
