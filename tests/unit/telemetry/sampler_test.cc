// The sampler against a real shared object with NVML's functions.
#include "orchestrator/telemetry/sampler.h"

#include <dlfcn.h>

#include <algorithm>
#include <set>

#include "orchestrator/base/clock.h"
#include "orchestrator/telemetry/evaluate.h"
#include "tests/support/catch.h"
#include "tests/support/fake_nvml.h"

using namespace sweep;
using namespace sweep::telemetry;
using test::FakeNvml;

namespace {

// The library, with the state that a test wants.
class Driver {
 public:
  explicit Driver(const char* path, const FakeNvml& state = {}) : path_(path), handle_(::dlopen(path, RTLD_NOW)) {
    INFO(::dlerror());
    REQUIRE(handle_ != nullptr);
    call<test::FakeNvmlSet>("fake_nvml_set")(&state);
  }
  ~Driver() { ::dlclose(handle_); }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  FakeNvml state() const {
    FakeNvml now;
    call<test::FakeNvmlGet>("fake_nvml_get")(&now);
    return now;
  }
  void wait_for(int64_t readings) const { call<test::FakeNvmlWait>("fake_nvml_wait")(readings); }
  SamplerOptions options() const { return {.library = path_, .period = std::chrono::milliseconds(1)}; }

 private:
  template <class Function>
  Function call(const char* name) const {
    return reinterpret_cast<Function>(::dlsym(handle_, name));
  }
  std::string path_;
  void* handle_;
};

Recording record(const Driver& driver, const SamplerOptions& options, int64_t readings) {
  auto sampler = Sampler::start(options);
  if (!sampler) FAIL(sampler.error().message);
  driver.wait_for(readings);
  return (*sampler)->stop();
}

std::string refused(const SamplerOptions& options) {
  auto sampler = Sampler::start(options);
  REQUIRE_FALSE(sampler.has_value());
  CHECK(diag::rule_info(sampler.error().rule).slug == "power/unavailable");
  return sampler.error().message;
}

}  // namespace

TEST_CASE("sampler: every GPU is read in every round, on the monotonic clock") {
  const Driver driver(SWEEP_FAKE_NVML_NEW, {.power_step_mw = 1000});
  const int64_t before = base::monotonic_ns();
  const Recording recording = record(driver, driver.options(), 20);
  const int64_t after = base::monotonic_ns();
  CHECK(recording.capture.clock == Clock::kMonotonic);
  CHECK(recording.driver_version == "580.00");
  CHECK(recording.instant_power);
  CHECK(recording.problems.empty());
  REQUIRE(recording.capture.gpus.size() == 2);
  for (const Gpu& gpu : recording.capture.gpus) {
    REQUIRE(gpu.samples.size() >= 10);
    double expected = 500;
    int64_t last = before;
    for (const Sample& sample : gpu.samples) {
      CHECK(sample.power_w == expected++);
      CHECK(sample.ns > last);
      CHECK(sample.ns < after);
      last = sample.ns;
      CHECK(sample.sm_clock_mhz == 1980.0);
      CHECK(sample.memory_clock_mhz == 3201.0);
      CHECK(sample.temperature_c == 45.0);
      CHECK(sample.throttle_reasons == uint64_t{4});
      CHECK(sample.memory_used_bytes == int64_t{600} << 20);
      CHECK(sample.energy_j.has_value());
    }
  }
  CHECK(recording.gpu_names == std::vector<std::string>{"Fake H200", "Fake H200"});
  CHECK(driver.state().initialised == 0);
}

TEST_CASE("sampler: power.csv holds what was sampled, and is read back") {
  const Driver driver(SWEEP_FAKE_NVML_NEW, {.power_step_mw = 500});
  const Recording recording = record(driver, driver.options(), 20);
  const std::string csv = power_csv(recording);
  INFO(csv.substr(0, 600));
  diag::Diagnostics out;
  const auto capture = parse_capture("power.csv", csv, out);
  CHECK(out.empty());
  REQUIRE(capture.has_value());
  CHECK(capture->clock == Clock::kMonotonic);
  REQUIRE(capture->gpus.size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    const auto& samples = recording.capture.gpus[i].samples;
    REQUIRE(capture->gpus[i].samples.size() == samples.size());
    CHECK(capture->gpus[i].uuid == recording.capture.gpus[i].uuid);
    for (size_t s = 0; s < samples.size(); ++s) {
      CHECK(capture->gpus[i].samples[s].ns == samples[s].ns);
      CHECK(capture->gpus[i].samples[s].power_w == samples[s].power_w);
      CHECK(capture->gpus[i].samples[s].energy_j == samples[s].energy_j);
      CHECK(capture->gpus[i].samples[s].throttle_reasons == samples[s].throttle_reasons);
      CHECK(capture->gpus[i].samples[s].foreign_processes == samples[s].foreign_processes);
    }
  }
}

TEST_CASE("sampler: a host without NVML is told apart from a driver that does not answer") {
  CHECK(contains(refused({.library = "/nonexistent/libnvidia-ml.so.1"}), "NVML cannot be loaded"));
  const Driver broken(SWEEP_FAKE_NVML_BROKEN);
  CHECK(contains(refused(broken.options()), "lacks the function nvmlDeviceGetPowerUsage"));
  const Driver unloaded(SWEEP_FAKE_NVML_NEW, {.init_status = 9});
  CHECK(contains(refused(unloaded.options()), "NVML cannot be initialised: Driver Not Loaded"));
  const Driver uncounted(SWEEP_FAKE_NVML_NEW, {.count_status = 999});
  CHECK(contains(refused(uncounted.options()), "NVML cannot count the GPUs: Unknown Error"));
  const Driver empty(SWEEP_FAKE_NVML_NEW, {.gpus = 0});
  CHECK(contains(refused(empty.options()), "NVML shows 0 of the GPUs"));
  CHECK(empty.state().initialised == 0);
}

TEST_CASE("sampler: an old driver gives what it has, the rest is absent") {
  const Driver driver(SWEEP_FAKE_NVML_OLD, {.throttle = 0x20});
  const Recording recording = record(driver, driver.options(), 10);
  const Sample& sample = recording.capture.gpus[0].samples.front();
  CHECK(sample.power_w == 500.0);
  CHECK_FALSE(recording.instant_power);
  CHECK_FALSE(sample.energy_j.has_value());
  CHECK_FALSE(sample.foreign_processes.has_value());
  CHECK(sample.throttle_reasons == uint64_t{0x20});
  CHECK(recording.driver_version.empty());
}

TEST_CASE("sampler: calls that fail leave absent values, never zero") {
  const Driver driver(SWEEP_FAKE_NVML_NEW,
                      {.field_status = 3, .clock_status = 3, .energy_status = 3, .process_status = 4});
  const Recording recording = record(driver, driver.options(), 10);
  const Sample& sample = recording.capture.gpus[1].samples.front();
  CHECK(sample.power_w == 500.0);  // the average takes the place of the power of the moment
  CHECK_FALSE(recording.instant_power);
  CHECK_FALSE(sample.sm_clock_mhz.has_value());
  CHECK_FALSE(sample.energy_j.has_value());
  CHECK_FALSE(sample.foreign_processes.has_value());
  CHECK(recording.problems.empty());
}

TEST_CASE("sampler: a GPU that falls off makes the power invalid and is named") {
  const Driver driver(SWEEP_FAKE_NVML_NEW, {.lost_gpu = 1, .lost_after = 5});
  const Recording recording = record(driver, driver.options(), 60);
  CHECK(recording.problems == std::vector<std::string>{"power of GPU 1: GPU is lost"});
  const auto& samples = recording.capture.gpus[1].samples;
  CHECK(samples[4].power_w.has_value());
  CHECK_FALSE(samples[5].power_w.has_value());
  CHECK_FALSE(samples[5].sm_clock_mhz.has_value());

  Window window;
  window.monotonic = Span{samples[1].ns, samples[samples.size() - 2].ns};
  window.expected_gpus = 2;
  const PowerReport report = evaluate(recording.capture, window, kLive);
  CHECK_FALSE(report.valid());
  const auto reasons = report.reasons();
  CHECK(std::any_of(reasons.begin(), reasons.end(),
                    [](const std::string& reason) { return contains(reason, "GPU 1: the last power value is"); }));
  CHECK(std::none_of(reasons.begin(), reasons.end(),
                     [](const std::string& reason) { return contains(reason, "GPU 0"); }));
}

TEST_CASE("sampler: processes that are not the engine's are counted, however many there are") {
  const Driver driver(SWEEP_FAKE_NVML_NEW, {.processes = 50, .first_pid = 100});
  SamplerOptions options = driver.options();
  options.is_own = [](int64_t pid) { return pid < 103; };
  const Recording recording = record(driver, options, 10);
  CHECK(recording.capture.gpus[0].samples.front().foreign_processes == int64_t{47});
  const auto before = occupancy(driver.options());
  REQUIRE(before.has_value());
  CHECK((*before)[1].gpu == "GPU 1");
  CHECK((*before)[1].processes == int64_t{50});
  CHECK((*before)[1].memory_used_bytes == int64_t{600} << 20);
}

TEST_CASE("sampler: the GPUs of the engine are the first ones, or those that CUDA shows it") {
  std::vector<NvmlGpu> gpus;
  for (int64_t i = 0; i < 4; ++i)
    gpus.push_back({.index = i, .uuid = "GPU-" + std::string(1, static_cast<char>('a' + i)) + "1", .name = {}});
  using Positions = std::vector<size_t>;
  CHECK(choose_gpus(gpus, 2, "") == Positions{0, 1});
  CHECK(choose_gpus(gpus, 2, "3,1,0") == Positions{3, 1});
  CHECK(choose_gpus(gpus, 2, "GPU-c,GPU-b1") == Positions{2, 1});
  CHECK(choose_gpus(gpus, 3, "2,9,1") == Positions{2});
  CHECK(choose_gpus(gpus, 3, "-1") == Positions{});
  CHECK(choose_gpus(gpus, 9, "") == Positions{0, 1, 2, 3});
  const Driver driver(SWEEP_FAKE_NVML_NEW);
  SamplerOptions options = driver.options();
  options.gpus = 3;
  CHECK(contains(refused(options), "NVML shows 2 of the GPUs that are used, expected 3"));
  options.gpus = 1;
  options.visible_devices = "1";
  CHECK(record(driver, options, 3).capture.gpus[0].index == 1);
}
