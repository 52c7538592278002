#include "orchestrator/telemetry/evaluate.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "orchestrator/diag/rules/power.h"
#include "orchestrator/telemetry/throttle.h"
#include "tests/support/catch.h"

using namespace sweep;
using namespace sweep::telemetry;
namespace rule = diag::rule;

namespace {

constexpr int64_t kMs = 1'000'000;

// Two GPUs at 20 Hz over six seconds, 500 and 600 W; the window is from 1 s to 5 s. Each test breaks one thing.
struct Measured {
  Capture capture;
  Window window;
  Requirements requirements = kLive;

  Measured() {
    capture.file = "power.csv";
    capture.clock = Clock::kMonotonic;
    for (int64_t index = 0; index < 2; ++index) {
      Gpu gpu{.host = {}, .index = index, .uuid = {}, .samples = {}};
      for (int64_t i = 0; i <= 120; ++i)
        gpu.samples.push_back({.ns = i * 50 * kMs,
                               .power_w = 500.0 + 100.0 * static_cast<double>(index),
                               .sm_clock_mhz = 1980.0,
                               .throttle_reasons = 0,
                               .line = static_cast<uint32_t>(2 + 2 * i + index)});
      capture.gpus.push_back(std::move(gpu));
    }
    window.monotonic = Span{1000 * kMs, 5000 * kMs};
    window.expected_gpus = 2;
    window.output_tokens = 1000;
  }

  PowerReport report() const { return evaluate(capture, window, requirements); }
  std::vector<Sample>& samples(size_t gpu) { return capture.gpus[gpu].samples; }
};

void check_only_finding(const Measured& measured, diag::RuleId rule, std::string_view part, bool valid = false) {
  const PowerReport report = measured.report();
  for (const diag::Diagnostic& d : report.findings.items()) INFO(d.message);
  REQUIRE(report.findings.items().size() == 1);
  const diag::Diagnostic& d = report.findings.items().front();
  INFO(d.message);
  CHECK(d.rule == rule);
  CHECK(contains(d.message, part));
  CHECK(report.valid() == valid);
  CHECK(values_json(report)["total_energy_j"].is_null() != valid);
  CHECK(values_json(report)["energy_j_per_gpu"].is_null() != valid);
  CHECK(report.reasons().size() == (valid ? 0u : 1u));
}

}  // namespace

TEST_CASE("power: energy is per GPU, then summed, over exactly the window") {
  const PowerReport report = Measured().report();
  for (const diag::Diagnostic& d : report.findings.items()) INFO(d.message);
  CHECK(report.valid());
  CHECK(report.findings.empty());
  CHECK(report.total_energy_j().value() == Approx(4400));
  CHECK(report.average_total_power_w().value() == Approx(1100));
  CHECK(report.joules_per_output_token().value() == Approx(4.4));
  CHECK(report.gpus[1].energy_j.value() == Approx(2400));
  CHECK(report.gpus[0].samples == 81);
  const nlohmann::json values = values_json(report);
  CHECK(values["avg_power_per_gpu_w"].get<double>() == Approx(550));
  CHECK(values["throttling"] == "");
  CHECK(values["clock_decays"] == false);
}

TEST_CASE("power: a window that the samples do not cover has no energy") {
  Measured measured;
  SECTION("begins too late") {
    measured.samples(1).erase(measured.samples(1).begin(), measured.samples(1).begin() + 21);
    check_only_finding(measured, rule::power_not_covered,
                       "GPU 1: the first power value is 0.050 s after the window begins");
  }
  SECTION("ends too early") {
    measured.samples(0).resize(100);
    check_only_finding(measured, rule::power_not_covered,
                       "GPU 0: the last power value is 0.050 s before the window ends");
  }
  SECTION("the samples around the window have no value") {
    for (size_t i = 0; i <= 20; ++i) measured.samples(0)[i].power_w.reset();
    const PowerReport report = measured.report();
    CHECK_FALSE(report.valid());
    CHECK(std::any_of(report.findings.items().begin(), report.findings.items().end(),
                      [](const diag::Diagnostic& d) { return d.rule == diag::RuleId(rule::power_not_covered); }));
  }
}

TEST_CASE("power: the edges of the window may be samples themselves") {
  Measured measured;
  measured.samples(0).erase(measured.samples(0).begin(), measured.samples(0).begin() + 20);
  measured.samples(0).resize(81);
  CHECK(measured.report().valid());
}

TEST_CASE("power: too few samples and gaps") {
  Measured measured;
  SECTION("once a second is too rare for a run that sampled itself") {
    for (size_t gpu : {0u, 1u}) {
      std::vector<Sample> rare;
      for (size_t i = 0; i < measured.samples(gpu).size(); i += 20) rare.push_back(measured.samples(gpu)[i]);
      measured.samples(gpu) = rare;
    }
    const PowerReport live = measured.report();
    const auto reasons = live.reasons();
    CHECK(std::any_of(reasons.begin(), reasons.end(), [](const std::string& reason) {
      return contains(reason, "GPU 1: 1.2 samples a second inside the window, expected at least 10");
    }));
    measured.requirements = {};
    CHECK(measured.report().valid());
    CHECK(measured.report().total_energy_j().value() == Approx(4400));
  }
  SECTION("one sample inside") {
    measured.requirements = {};
    measured.window.monotonic = Span{1020 * kMs, 1060 * kMs};
    const PowerReport report = measured.report();
    CHECK_FALSE(report.valid());
    CHECK(contains(report.reasons().front(), "1 sample inside the window"));
  }
  SECTION("a gap of 0.6 s") {
    auto& samples = measured.samples(0);
    samples.erase(samples.begin() + 41, samples.begin() + 52);
    check_only_finding(measured, rule::power_gap, "no power value for 0.600 s, 1.000 s into the window");
  }
  SECTION("a gap of 0.5 s is still accepted") {
    auto& samples = measured.samples(0);
    samples.erase(samples.begin() + 41, samples.begin() + 50);
    CHECK(measured.report().valid());
  }
  SECTION("a gap before the window is none") {
    auto& samples = measured.samples(0);
    samples.erase(samples.begin() + 1, samples.begin() + 18);
    CHECK(measured.report().valid());
  }
}

TEST_CASE("power: another number of GPUs than used") {
  Measured measured;
  SECTION("one is missing") {
    measured.window.expected_gpus = 3;
  }
  SECTION("one is idle and was counted") {
    measured.window.expected_gpus = 1;
  }
  check_only_finding(measured, rule::power_gpu_count, "2 GPUs were sampled (GPU 0, GPU 1)");
}

TEST_CASE("power: time that does not rise") {
  Measured measured;
  SECTION("backwards") {
    measured.samples(0)[50].ns = measured.samples(0)[48].ns;
    check_only_finding(measured, rule::power_time_order, "0.050 s before the sample of line 100");
  }
  SECTION("twice the same") {
    measured.samples(0)[50].ns = measured.samples(0)[49].ns;
    check_only_finding(measured, rule::power_time_order, "the same time as in line 100");
  }
}

TEST_CASE("power: values without meaning") {
  Measured measured;
  SECTION("none in one of a hundred samples is left out with a warning") {
    measured.window.monotonic = Span{0, 6000 * kMs};
    measured.samples(0)[60].power_w.reset();
    check_only_finding(measured, rule::power_no_value, "1 of 121 samples", true);
  }
  SECTION("none in two of 81 samples is too much") {
    measured.samples(0)[60].power_w.reset();
    measured.samples(0)[70].power_w.reset();
    check_only_finding(measured, rule::power_no_value, "2 of 81 samples");
  }
  SECTION("milliwatts taken for watts") {
    for (Sample& sample : measured.samples(1)) *sample.power_w *= 1000;
    check_only_finding(measured, rule::power_absurd, "81 of 81 samples");
  }
  SECTION("zero") {
    measured.samples(1)[60].power_w = 0;
    check_only_finding(measured, rule::power_absurd, "1 of 81 samples");
  }
  SECTION("a clock of 10 GHz") {
    measured.samples(1)[60].sm_clock_mhz = 10'000;
    check_only_finding(measured, rule::power_absurd, "SM clock 10000 MHz");
  }
  SECTION("outside of the window they do not matter") {
    measured.samples(1)[5].power_w = 0;
    CHECK(measured.report().valid());
  }
}

TEST_CASE("power: a clock that falls steadily is flagged, one that only varies is not") {
  Measured measured;
  auto& samples = measured.samples(1);
  SECTION("steadily") {
    for (size_t i = 0; i < samples.size(); ++i) samples[i].sm_clock_mhz = 1980.0 - 2 * static_cast<double>(i);
    check_only_finding(measured, rule::power_clock_decay, "GPU 1: the SM clock falls steadily from 1940 to 1780 MHz",
                       true);
    CHECK(measured.report().slowest_trend()->name == "GPU 1");
  }
  SECTION("up and down") {
    for (size_t i = 0; i < samples.size(); ++i) samples[i].sm_clock_mhz = i % 2 == 0 ? 1980.0 : 1500.0;
    samples[100].sm_clock_mhz = 1500.0;
    CHECK(measured.report().findings.empty());
  }
  SECTION("by less than 5 %") {
    for (size_t i = 0; i < samples.size(); ++i) samples[i].sm_clock_mhz = 1980.0 - 0.5 * static_cast<double>(i);
    CHECK(measured.report().findings.empty());
  }
  SECTION("before the window") {
    for (size_t i = 0; i < 20; ++i) samples[i].sm_clock_mhz = 3000.0 - 50 * static_cast<double>(i);
    CHECK(measured.report().findings.empty());
  }
}

TEST_CASE("power: slowdowns make the power invalid, the power limit is noted, idleness is nothing") {
  Measured measured;
  SECTION("thermal") {
    measured.samples(0)[60].throttle_reasons = kHardwareThermal | kHardwareSlowdown;
    check_only_finding(measured, rule::power_throttled,
                       "in 1 of 81 samples inside the window: hardware slowdown, hardware thermal slowdown");
  }
  SECTION("power limit") {
    for (Sample& sample : measured.samples(0)) sample.throttle_reasons = kSoftwarePowerCap;
    check_only_finding(measured, rule::power_capped, "at its power limit in 81 of 81 samples", true);
  }
  SECTION("idle and application clocks") {
    measured.samples(0)[60].throttle_reasons = 0x3;
    CHECK(measured.report().findings.empty());
  }
  SECTION("outside of the window") {
    measured.samples(0)[5].throttle_reasons = kPowerBrake;
    CHECK(measured.report().findings.empty());
  }
}

TEST_CASE("power: the energy counter is held against the samples") {
  Measured measured;
  const auto count = [&](double watts) {
    for (Sample& sample : measured.samples(0)) sample.energy_j = 7e6 + watts * static_cast<double>(sample.ns) / 1e9;
  };
  SECTION("they agree") {
    count(510);
    CHECK(measured.report().findings.empty());
    CHECK(measured.report().gpus[0].counter_energy_j.value() == Approx(2040));
  }
  SECTION("they do not") {
    count(540);
    check_only_finding(measured, rule::power_counter, "2000.0 J by the power samples and 2160.0 J", true);
  }
}

TEST_CASE("power: samples and window of different clocks are not held against each other") {
  Measured measured;
  measured.capture.clock = Clock::kLocal;
  check_only_finding(measured, rule::power_clock, "the samples are of the local wall clock");
}
