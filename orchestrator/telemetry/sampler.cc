#include "orchestrator/telemetry/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>

#include "orchestrator/base/clock.h"
#include "orchestrator/diag/rules/power.h"

namespace sweep::telemetry {

namespace {

constexpr int64_t kProcessPeriodNs = 1'000'000'000;  // listing processes takes milliseconds
constexpr size_t kMostSamples = 500'000;             // of a GPU: seven hours at 20 Hz

diag::Result<std::vector<size_t>> chosen(const Nvml& nvml, const SamplerOptions& options) {
  std::vector<size_t> positions =
      choose_gpus(nvml.gpus(), options.gpus == 0 ? nvml.gpus().size() : options.gpus, options.visible_devices);
  if (positions.empty() || positions.size() < options.gpus)
    return diag::fail(diag::rule::power_unavailable, fmt::format("NVML shows {} of the GPUs that are used, expected {}",
                                                                 positions.size(), std::max<size_t>(options.gpus, 1)));
  return positions;
}

}  // namespace

struct Sampler::State {
  SamplerOptions options;
  std::unique_ptr<Nvml> nvml;
  std::vector<size_t> positions;
  Recording recording;
  int64_t processes_due_ns = 0;
  std::vector<std::optional<int64_t>> foreign;
  std::mutex mutex;
  std::condition_variable_any wake;
  std::jthread thread;  // last: it uses the rest

  void sample_all() {
    const bool list_processes = base::monotonic_ns() >= processes_due_ns;
    if (list_processes) processes_due_ns = base::monotonic_ns() + kProcessPeriodNs;
    for (size_t i = 0; i < positions.size(); ++i) {
      std::string problem;
      Sample s = nvml->read(positions[i], problem);
      if (list_processes) foreign[i] = count_foreign(positions[i]);
      s.foreign_processes = foreign[i];
      if (!problem.empty()) note(std::move(problem));
      recording.capture.gpus[i].samples.push_back(s);
    }
  }

  std::optional<int64_t> count_foreign(size_t position) {
    const auto pids = nvml->processes(position);
    if (!pids) return std::nullopt;
    return std::count_if(pids->begin(), pids->end(),
                         [&](int64_t pid) { return !options.is_own || !options.is_own(pid); });
  }

  void note(std::string problem) {
    auto& problems = recording.problems;
    if (std::find(problems.begin(), problems.end(), problem) == problems.end()) problems.push_back(std::move(problem));
  }

  void run(const std::stop_token& stop) {
    auto due = std::chrono::steady_clock::now();
    while (!stop.stop_requested()) {
      due = std::max(due + options.period, std::chrono::steady_clock::now());
      std::unique_lock lock(mutex);
      wake.wait_until(lock, stop, due, [] { return false; });
      lock.unlock();
      if (stop.stop_requested()) return;
      if (recording.capture.gpus.front().samples.size() >= kMostSamples)
        return note(fmt::format("sampling ended after {} samples of each GPU", kMostSamples));
      sample_all();
    }
  }
};

Sampler::Sampler(std::unique_ptr<State> state) : state_(std::move(state)) {}
Sampler::~Sampler() = default;

diag::Result<std::unique_ptr<Sampler>> Sampler::start(SamplerOptions options) {
  auto nvml = Nvml::load(options.library);
  if (!nvml) return diag::fail(std::move(nvml).error());
  auto positions = chosen(**nvml, options);
  if (!positions) return diag::fail(std::move(positions).error());
  auto state = std::make_unique<State>();
  state->options = std::move(options);
  state->nvml = std::move(*nvml);
  state->positions = std::move(*positions);
  state->foreign.resize(state->positions.size());
  Recording& recording = state->recording;
  recording.capture.file = "power.csv";
  recording.capture.clock = Clock::kMonotonic;
  recording.driver_version = state->nvml->driver_version();
  for (const size_t position : state->positions) {
    const NvmlGpu& gpu = state->nvml->gpus()[position];
    recording.capture.gpus.push_back({.host = {}, .index = gpu.index, .uuid = gpu.uuid, .samples = {}});
    recording.gpu_names.push_back(gpu.name);
  }
  recording.unix_offset_ns = base::unix_ns() - base::monotonic_ns();
  state->sample_all();
  State* running = state.get();
  state->thread = std::jthread([running](const std::stop_token& stop) { running->run(stop); });
  return std::unique_ptr<Sampler>(new Sampler(std::move(state)));
}

Recording Sampler::stop() {
  state_->thread.request_stop();
  state_->thread.join();
  state_->processes_due_ns = 0;
  state_->sample_all();
  state_->recording.instant_power =
      std::all_of(state_->positions.begin(), state_->positions.end(),
                  [&](size_t position) { return state_->nvml->reads_instant_power(position); });
  return std::move(state_->recording);
}

std::vector<size_t> choose_gpus(const std::vector<NvmlGpu>& gpus, size_t count, std::string_view visible_devices) {
  std::vector<size_t> positions;
  if (visible_devices.empty()) {
    for (size_t i = 0; i < std::min(count, gpus.size()); ++i) positions.push_back(i);
    return positions;
  }
  while (!visible_devices.empty() && positions.size() < count) {
    const std::string_view word = visible_devices.substr(0, visible_devices.find(','));
    visible_devices.remove_prefix(std::min(visible_devices.size(), word.size() + 1));
    int64_t index = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), index);
    const bool is_number = error == std::errc() && end == word.data() + word.size();
    const auto found = std::find_if(gpus.begin(), gpus.end(), [&](const NvmlGpu& gpu) {
      return is_number ? gpu.index == index : !word.empty() && gpu.uuid.starts_with(word);
    });
    if (found == gpus.end()) break;  // CUDA ignores what stands behind a device that is not there
    positions.push_back(static_cast<size_t>(found - gpus.begin()));
  }
  return positions;
}

std::string power_csv(const Recording& recording) {
  std::string out =
      "schema_version,monotonic_ns,unix_ns,gpu_index,gpu_uuid,power_w,energy_j,sm_clock_mhz,memory_clock_mhz,"
      "temperature_c,memory_used_bytes,throttle_reasons,foreign_processes\n";
  const auto& gpus = recording.capture.gpus;
  const size_t rounds = gpus.empty() ? 0 : gpus.front().samples.size();
  const auto decimal = [](const std::optional<double>& value, int digits) {
    return value ? fmt::format("{:.{}f}", *value, digits) : std::string();
  };
  const auto whole = [](const std::optional<int64_t>& value) {
    return value ? fmt::format("{}", *value) : std::string();
  };
  for (size_t round = 0; round < rounds; ++round) {
    for (const Gpu& gpu : gpus) {
      const Sample& s = gpu.samples[round];
      fmt::format_to(std::back_inserter(out), "1,{},{},{},{},{},{},{},{},{},{},{},{}\n", s.ns,
                     s.ns + recording.unix_offset_ns, gpu.index, gpu.uuid, decimal(s.power_w, 3),
                     decimal(s.energy_j, 3), decimal(s.sm_clock_mhz, 0), decimal(s.memory_clock_mhz, 0),
                     decimal(s.temperature_c, 0), whole(s.memory_used_bytes),
                     s.throttle_reasons ? fmt::format("0x{:016x}", *s.throttle_reasons) : std::string(),
                     whole(s.foreign_processes));
    }
  }
  return out;
}

diag::Result<std::vector<Occupancy>> occupancy(const SamplerOptions& options) {
  auto nvml = Nvml::load(options.library);
  if (!nvml) return diag::fail(std::move(nvml).error());
  auto positions = chosen(**nvml, options);
  if (!positions) return diag::fail(std::move(positions).error());
  std::vector<Occupancy> list;
  for (const size_t position : *positions) {
    std::string problem;
    const Sample s = (*nvml)->read(position, problem);
    const auto pids = (*nvml)->processes(position);
    list.push_back({.gpu = fmt::format("GPU {}", (*nvml)->gpus()[position].index),
                    .memory_used_bytes = s.memory_used_bytes.value_or(0),
                    .processes = pids ? std::optional(static_cast<int64_t>(pids->size())) : std::nullopt});
  }
  return list;
}

}  // namespace sweep::telemetry
