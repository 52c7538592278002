#include "orchestrator/loadgen/open_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "orchestrator/base/clock.h"
#include "orchestrator/base/rng.h"
#include "orchestrator/diag/rules/load.h"
#include "orchestrator/loadgen/load.h"

namespace sweep::loadgen {

namespace {

constexpr double kMostPerSecond = 1e6;

// Uniform in (0, 1].
double uniform(base::SplitMix64& random) {
  constexpr int kBitsOfDouble = 53;
  return (static_cast<double>(random.next() >> (64 - kBitsOfDouble)) + 1) * std::ldexp(1.0, -kBitsOfDouble);
}

// Until the time has passed or a stop is requested.
void wait(std::chrono::nanoseconds time, const std::stop_token& stop) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any never;
  never.wait_for(lock, stop, time, [] { return false; });
}

void send_on_schedule(Load& load, const std::vector<int64_t>& times, const std::stop_token& stop) {
  const int64_t begin_ns = base::monotonic_ns();
  for (const int64_t time_ns : times) {
    const int64_t due_ns = begin_ns + time_ns;
    for (int64_t now_ns = base::monotonic_ns(); now_ns < due_ns && load.has_next(); now_ns = base::monotonic_ns()) {
      const std::chrono::nanoseconds left(due_ns - now_ns);
      if (load.in_flight())
        load.poll(left);
      else
        wait(left, stop);
    }
    if (!load.has_next()) return;
    load.send_next(due_ns);
    load.poll(std::chrono::nanoseconds(0));  // a client that is late goes on reading
  }
}

// Times from here on are those of the client as much as of the server.
void note_late_sending(Measurement& measured) {
  constexpr int64_t kLateNs = 10'000'000;
  int64_t late = 0;
  int64_t most_ns = 0;
  for (const sample::Sample& s : measured.samples) {
    const int64_t delay_ns = s.sent_ns - s.scheduled_ns;
    if (delay_ns > kLateNs) ++late;
    most_ns = std::max(most_ns, delay_ns);
  }
  if (late == 0) return;
  measured.problems.add(
      diag::make(diag::rule::load_late_sending,
                 fmt::format("{} requests were sent more than {} ms after they were due, the latest by {} ms", late,
                             kLateNs / base::kNanosecondsPerMillisecond, most_ns / base::kNanosecondsPerMillisecond),
                 "measure from a machine with a free core, or at a lower rate"));
}

}  // namespace

std::string_view spacing_name(Spacing spacing) {
  return spacing == Spacing::kFixed ? "fixed" : "poisson";
}

std::vector<int64_t> arrival_times(const Arrivals& arrivals, uint64_t seed, int64_t requests) {
  std::vector<int64_t> times;
  times.reserve(static_cast<size_t>(requests));
  base::SplitMix64 random(seed);
  double seconds = 0;
  for (int64_t i = 0; i < requests; ++i) {
    if (arrivals.spacing == Spacing::kFixed)
      seconds = static_cast<double>(i) / arrivals.per_second;
    else
      seconds -= std::log(uniform(random)) / arrivals.per_second;
    times.push_back(std::llround(seconds * base::kNanosecondsPerSecond));
  }
  return times;
}

diag::Result<Measurement> run_open_loop(const LoadSpec& spec, const Arrivals& arrivals, const SampleSink& sink,
                                        const ProgressSink& progress, const std::stop_token& stop) {
  if (!(arrivals.per_second > 0 && arrivals.per_second <= kMostPerSecond))
    return diag::fail(diag::rule::load_bad_spec,
                      fmt::format("{} requests per second, expected above 0 and at most {}", arrivals.per_second,
                                  static_cast<int64_t>(kMostPerSecond)));
  // A server that falls behind far enough has all of them in flight.
  auto load = Load::open(spec, std::max(spec.concurrency, spec.requests), sink, progress, stop);
  if (!load) return diag::fail(std::move(load).error());
  if (spec.warmup_requests > 0) {
    load->begin(sample::Phase::kWarmUp, spec.warmup_requests);
    for (int64_t i = 0; i < std::min(spec.concurrency, spec.warmup_requests); ++i) load->send_next();
    load->drain([&] { load->send_next(); });
  }
  load->begin(sample::Phase::kMeasured, spec.requests);
  send_on_schedule(*load, arrival_times(arrivals, spec.seed, spec.requests), stop);
  load->drain();
  auto measured = load->finish();
  if (measured) note_late_sending(*measured);
  return measured;
}

}  // namespace sweep::loadgen
