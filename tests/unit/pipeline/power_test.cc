// Telemetry of a run, with a real shared object in NVML's place: recorded into the run folder and judged from there.
#include "orchestrator/pipeline/power.h"

#include <dlfcn.h>
#include <unistd.h>

#include "orchestrator/base/clock.h"
#include "tests/support/catch.h"
#include "tests/support/environment.h"
#include "tests/support/fake_nvml.h"
#include "tests/support/test_dir.h"

using namespace sweep;
using nlohmann::json;
using test::FakeNvml;

namespace {

class Driver {
 public:
  explicit Driver(const FakeNvml& state = {}) : handle_(::dlopen(SWEEP_FAKE_NVML_NEW, RTLD_NOW)) {
    REQUIRE(handle_ != nullptr);
    reinterpret_cast<test::FakeNvmlSet>(::dlsym(handle_, "fake_nvml_set"))(&state);
  }
  ~Driver() { ::dlclose(handle_); }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  void wait_for(int64_t readings) const {
    reinterpret_cast<test::FakeNvmlWait>(::dlsym(handle_, "fake_nvml_wait"))(readings);
  }

 private:
  void* handle_;
  test::EnvironmentVariable visible_{"CUDA_VISIBLE_DEVICES", std::nullopt};
};

plan::Job gpu_job(int64_t gpus) {
  plan::Job job;
  job.gpus = gpus;
  job.tp = gpus;
  return job;
}

// What measure() does: looks before the launch, samples around a window, writes.
json recorded(const Driver& driver, const plan::Job& job, const std::filesystem::path& folder, pid_t engine_group) {
  pipeline::PowerRecording power(job, true, SWEEP_FAKE_NVML_NEW);
  power.start(engine_group);
  driver.wait_for(6);
  const int64_t begin = base::monotonic_ns();
  driver.wait_for(24);
  const int64_t end = base::monotonic_ns();
  auto telemetry = power.finish(folder);
  REQUIRE(telemetry.has_value());
  return {{"telemetry", *telemetry},
          {"window", {{"start_ns", begin}, {"end_ns", end}, {"start_unix_ns", 1}, {"end_unix_ns", 2}}}};
}

}  // namespace

TEST_CASE("power of a run: recorded, written and judged from the file") {
  const test::TestDir dir;
  const Driver driver({.processes = 0});
  const plan::Job job = gpu_job(2);
  const json measurement = recorded(driver, job, dir.path(), ::getpgrp());
  INFO(measurement.dump(1));
  const json& telemetry = measurement["telemetry"];
  CHECK(telemetry["recorded"] == true);
  CHECK(telemetry["driver"] == "580.00");
  CHECK(telemetry["gpus"].size() == 2);
  CHECK(telemetry["before_launch"][0]["processes"] == 0);
  CHECK(contains(dir.read("power.csv"), "schema_version,monotonic_ns,unix_ns,gpu_index"));

  const pipeline::PowerOutcome outcome = pipeline::power_of(job, dir.path(), measurement, 256);
  INFO(outcome.document.dump(1));
  CHECK(outcome.document["measured"] == true);
  CHECK(outcome.document["throttling"] == "power cap");
  REQUIRE(outcome.telemetry.has_value());
  CHECK(outcome.telemetry->foreign_processes == 0);
  CHECK(outcome.telemetry->occupied_before.empty());
  // The rate depends on how busy this machine is; all else must be right.
  for (const std::string& reason : outcome.report->reasons())
    CHECK((contains(reason, "samples a second") || contains(reason, "no power value for")));
  if (outcome.report->valid()) CHECK(outcome.document["avg_total_power_w"].get<double>() == Approx(1000));
}

TEST_CASE("power of a run: another number of GPUs, other processes and a full GPU are seen") {
  const test::TestDir dir;
  constexpr pid_t kNoGroup = 0x7ffffffe;  // pid 1 is visible here, and of another group
  const Driver driver({.processes = 1, .first_pid = 1, .memory_used = 9ull << 30});
  json measurement = recorded(driver, gpu_job(1), dir.path(), kNoGroup);
  const pipeline::PowerOutcome outcome = pipeline::power_of(gpu_job(2), dir.path(), measurement, 256);
  REQUIRE(outcome.telemetry.has_value());
  CHECK_FALSE(outcome.telemetry->power_valid);
  CHECK(contains(outcome.telemetry->power_text, "1 GPUs were sampled (GPU 0), expected 2"));
  CHECK(outcome.telemetry->foreign_processes == 1);
  CHECK(outcome.telemetry->occupied_before == "GPU 0 had 1 processes and 9216 MiB in use");
  CHECK(outcome.document["total_energy_j"].is_null());
}

TEST_CASE("power of a run: without GPUs, without NVML or without a known engine nothing is claimed, and why is said") {
  const test::TestDir dir;
  const auto reason = [&](const plan::Job& job, bool launched_here, const char* library) {
    pipeline::PowerRecording power(job, launched_here, library);
    power.start(::getpgrp());
    const json telemetry = power.finish(dir.path()).value();
    CHECK(telemetry["recorded"] == false);
    const auto outcome = pipeline::power_of(job, dir.path(), {{"telemetry", telemetry}}, 256);
    CHECK(outcome.document["measured"] == false);
    CHECK_FALSE(outcome.telemetry.has_value());
    CHECK(outcome.document["reason"] == outcome.reason);
    return outcome.reason;
  };
  CHECK(reason(gpu_job(0), true, SWEEP_FAKE_NVML_NEW) == "no GPU was used");
  CHECK(contains(reason(gpu_job(2), true, "/nonexistent/nvml.so"), "NVML cannot be loaded"));
  CHECK(contains(reason(gpu_job(2), false, SWEEP_FAKE_NVML_NEW), "started by someone else"));
  plan::Job several = gpu_job(2);
  several.multinode = true;
  CHECK(contains(reason(several, true, SWEEP_FAKE_NVML_NEW), "several hosts"));
  CHECK_FALSE(std::filesystem::exists(dir / "power.csv"));
  CHECK(pipeline::power_of(gpu_job(2), dir.path(), json::object(), 1).reason == "telemetry was not recorded");
}

TEST_CASE("power of a run: a file that was lost or damaged makes the power invalid") {
  const test::TestDir dir;
  const Driver driver({.processes = 0});
  const json measurement = recorded(driver, gpu_job(2), dir.path(), ::getpgrp());
  SECTION("lost") {
    std::filesystem::remove(dir / "power.csv");
  }
  SECTION("damaged") {
    dir.write("power.csv", "schema_version,monotonic_ns,gpu_index,power_w\n1,x,0,500\n");
  }
  const pipeline::PowerOutcome outcome = pipeline::power_of(gpu_job(2), dir.path(), measurement, 256);
  REQUIRE(outcome.telemetry.has_value());
  CHECK_FALSE(outcome.telemetry->power_valid);
  CHECK(outcome.document["total_energy_j"].is_null());
}
