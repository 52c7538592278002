#include "orchestrator/loadgen/open_loop.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <thread>
#include <vector>

#include "orchestrator/diag/rules/load.h"
#include "orchestrator/sample/metrics.h"
#include "tests/support/catch.h"
#include "tests/support/fault_engine.h"

namespace sweep::loadgen {

namespace {

using std::chrono::milliseconds;
using test::Fault;
using test::FaultEngine;

LoadSpec open_spec(const std::string& url, int64_t requests) {
  return {.job = "job",
          .base_url = url,
          .model = "embedded",
          .isl = 16,
          .osl = 8,
          .concurrency = 2,
          .requests = requests,
          .warmup_requests = 2,
          .prompt_tokens = {.begin = 10, .end = 1000},
          .seed = 1};
}

diag::Result<diag::Done> drop(const sample::Sample&) {
  return diag::Done{};
}

std::vector<sample::Sample> measured(const Measurement& m) {
  std::vector<sample::Sample> samples;
  for (const auto& s : m.samples)
    if (s.phase == sample::Phase::kMeasured) samples.push_back(s);
  std::sort(samples.begin(), samples.end(), [](auto& a, auto& b) { return a.sequence < b.sequence; });
  return samples;
}

}  // namespace

TEST_CASE("open loop: fixed spacing is exact, from zero") {
  CHECK((arrival_times({.per_second = 1000}, 1, 4) == std::vector<int64_t>{0, 1'000'000, 2'000'000, 3'000'000}));
  CHECK(arrival_times({.per_second = 3}, 1, 1'000'001).back() == 333'333'333'333'333);
  CHECK(arrival_times({.per_second = 3}, 1, 0).empty());
}

TEST_CASE("open loop: a Poisson schedule follows from its seed, and has exponential gaps of the mean") {
  const Arrivals arrivals{.per_second = 100, .spacing = Spacing::kPoisson};
  const auto times = arrival_times(arrivals, 7, 100'000);
  CHECK(arrival_times(arrivals, 7, 100'000) == times);
  CHECK(arrival_times(arrivals, 8, 100'000) != times);
  const auto fewer = arrival_times(arrivals, 7, 100);
  CHECK(std::equal(fewer.begin(), fewer.end(), times.begin()));
  CHECK(std::is_sorted(times.begin(), times.end()));
  CHECK(times.front() > 0);
  // Mean 10 ms; of exponential gaps, a share of exp(-1) exceeds the mean and exp(-3) three times the mean.
  const double mean_ms = static_cast<double>(times.back()) * 1e-6 / 100'000;
  CHECK(mean_ms == Approx(10).epsilon(0.02));
  const auto share_above = [&](double ms) {
    int64_t above = 0;
    for (size_t i = 1; i < times.size(); ++i)
      if (static_cast<double>(times[i] - times[i - 1]) * 1e-6 > ms) ++above;
    return static_cast<double>(above) / 100'000;
  };
  CHECK(share_above(10) == Approx(std::exp(-1)).epsilon(0.03));
  CHECK(share_above(30) == Approx(std::exp(-3)).epsilon(0.06));
}

TEST_CASE("open loop: requests are sent on the schedule and not before, answered or not") {
  // Each reply takes longer than many gaps.
  const FaultEngine engine({.step = milliseconds(10)});
  const Arrivals arrivals{.per_second = 500};
  const auto m = run_open_loop(open_spec(engine.url(), 20), arrivals, drop);
  REQUIRE(m.has_value());
  CHECK_FALSE(m->problems.has_errors());  // a busy machine may send late, and says so
  CHECK(m->not_sent == 0);
  const auto samples = measured(*m);
  REQUIRE(samples.size() == 20);
  const auto times = arrival_times(arrivals, 1, 20);
  for (size_t i = 0; i < samples.size(); ++i) {
    CHECK(samples[i].scheduled_ns - samples[0].scheduled_ns == times[i]);
    CHECK(samples[i].sent_ns >= samples[i].scheduled_ns);
    CHECK(*sample::ttft_ms(samples[i]) ==
          Approx(static_cast<double>(*samples[i].first_token_ns - samples[i].scheduled_ns) * 1e-6));
  }
  CHECK(m->window->start_ns == samples[0].sent_ns);
}

TEST_CASE("open loop: what falls due while the client is busy is still sent, and late by what it was") {
  const FaultEngine engine({});
  int taken = 0;
  int64_t busy_until_ns = 0;
  const auto m = run_open_loop(open_spec(engine.url(), 40), {.per_second = 100},
                               [&](const sample::Sample& s) -> diag::Result<diag::Done> {
                                 // The sink of the first measured request holds up everything for 60 ms.
                                 if (s.phase == sample::Phase::kMeasured && taken++ == 0) {
                                   busy_until_ns = s.end_ns + 60'000'000;
                                   std::this_thread::sleep_for(milliseconds(60));
                                 }
                                 return diag::Done{};
                               });
  REQUIRE(m.has_value());
  REQUIRE(m->problems.items().size() == 1);
  CHECK(m->problems.items()[0].rule == diag::rule::load_late_sending);
  const auto samples = measured(*m);
  REQUIRE(samples.size() == 40);
  int64_t late = 0;
  for (const auto& s : samples)
    if (s.scheduled_ns < busy_until_ns && s.sent_ns >= busy_until_ns) ++late;
  CHECK(late > 0);
}

TEST_CASE("open loop: a stop request ends a wait for the next request") {
  const FaultEngine engine({});
  std::stop_source stop;
  LoadSpec spec = open_spec(engine.url(), 10);
  // The second request is due after a minute.
  const auto m = run_open_loop(
      spec, {.per_second = 1.0 / 60}, drop,
      [&](const Progress& p) {
        if (p.phase == sample::Phase::kMeasured && p.finished == 1) stop.request_stop();
      },
      stop.get_token());
  REQUIRE(m.has_value());
  CHECK(m->cancelled);
  CHECK(m->not_sent == 9);
  CHECK(measured(*m).size() == 1);
}

TEST_CASE("open loop: a dead server ends the load") {
  const FaultEngine engine({.fault = Fault::kDieMidway});
  const auto m = run_open_loop(open_spec(engine.url(), 100), {.per_second = 200}, drop);
  REQUIRE(m.has_value());
  CHECK(m->not_sent > 0);
  CHECK(static_cast<int64_t>(measured(*m).size()) + m->not_sent == 100);
  std::set<std::string> rules;
  for (const auto& problem : m->problems.items()) rules.emplace(diag::rule_info(problem.rule).slug);
  CHECK(rules.count("load/gave-up") == 1);
}

TEST_CASE("open loop: a rate that is none is refused before anything is sent") {
  const FaultEngine engine({});
  for (const double rate : {0.0, -1.0, 1e7, std::nan("")})
    CHECK(run_open_loop(open_spec(engine.url(), 1), {.per_second = rate}, drop).error().rule ==
          diag::rule::load_bad_spec);
  CHECK(engine.server().requests().empty());
}

}  // namespace sweep::loadgen
