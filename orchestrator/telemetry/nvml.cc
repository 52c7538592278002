#include "orchestrator/telemetry/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "orchestrator/base/clock.h"
#include "orchestrator/diag/rules/power.h"
#include "orchestrator/telemetry/capture.h"

namespace sweep::telemetry {

namespace {

// The binary interface: names, numbers and layouts of nvml.h.
using Device = void*;
using Status = int;
constexpr Status kSuccess = 0;
constexpr Status kInsufficientSize = 7;
constexpr int kClockSm = 1;
constexpr int kClockMemory = 2;
constexpr int kTemperatureGpu = 0;
constexpr unsigned kFieldPowerInstant = 186;

struct MemoryInfo {
  unsigned long long total = 0, free = 0, used = 0;
};

struct ProcessInfo {  // of nvmlDeviceGetComputeRunningProcesses_v2 and _v3
  unsigned pid = 0;
  unsigned long long used_memory = 0;
  unsigned gpu_instance = 0;
  unsigned compute_instance = 0;
};

union Value {
  double floating;
  unsigned integer;
  unsigned long long wide = 0;
};

struct FieldValue {
  unsigned field = 0;
  unsigned scope = 0;
  long long timestamp_us = 0;
  long long latency_us = 0;
  int type = 0;
  Status status = 0;
  Value value;
};
static_assert(sizeof(ProcessInfo) == 24 && sizeof(FieldValue) == 40);
constexpr int kTypeUnsigned = 1;
constexpr int kTypeUnsignedLongLong = 3;

constexpr double kMilliwattsPerWatt = 1000;
constexpr double kMillijoulesPerJoule = 1000;
constexpr unsigned kMostProcesses = 4096;

}  // namespace

struct Nvml::Library {
  void* handle = nullptr;
  bool initialised = false;

  Status (*init)() = nullptr;
  Status (*shutdown)() = nullptr;
  const char* (*error_string)(Status) = nullptr;
  Status (*count)(unsigned*) = nullptr;
  Status (*by_index)(unsigned, Device*) = nullptr;
  Status (*uuid)(Device, char*, unsigned) = nullptr;
  Status (*power)(Device, unsigned*) = nullptr;
  // May be absent.
  Status (*driver_version)(char*, unsigned) = nullptr;
  Status (*name)(Device, char*, unsigned) = nullptr;
  Status (*fields)(Device, int, FieldValue*) = nullptr;
  Status (*energy)(Device, unsigned long long*) = nullptr;
  Status (*clock)(Device, int, unsigned*) = nullptr;
  Status (*throttle)(Device, unsigned long long*) = nullptr;
  Status (*temperature)(Device, int, unsigned*) = nullptr;
  Status (*memory)(Device, MemoryInfo*) = nullptr;
  Status (*processes)(Device, unsigned*, ProcessInfo*) = nullptr;

  Library() = default;
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() {
    if (initialised) shutdown();
    if (handle != nullptr) ::dlclose(handle);
  }

  template <class Function>
  bool find(const char* symbol, Function& to) {
    to = reinterpret_cast<Function>(::dlsym(handle, symbol));
    return to != nullptr;
  }

  // The name of a function that is needed and not there; empty if all are.
  std::string bind() {
    find("nvmlSystemGetDriverVersion", driver_version);
    find("nvmlDeviceGetName", name);
    find("nvmlDeviceGetFieldValues", fields);
    find("nvmlDeviceGetTotalEnergyConsumption", energy);
    find("nvmlDeviceGetClockInfo", clock);
    if (!find("nvmlDeviceGetCurrentClocksEventReasons", throttle))
      find("nvmlDeviceGetCurrentClocksThrottleReasons", throttle);
    find("nvmlDeviceGetTemperature", temperature);
    find("nvmlDeviceGetMemoryInfo", memory);
    // The drivers of CUDA 12.0 to 12.2 gave _v3 another layout than later ones; _v2 has had one only.
    if (!find("nvmlDeviceGetComputeRunningProcesses_v2", processes))
      find("nvmlDeviceGetComputeRunningProcesses_v3", processes);
    const auto need = [&](const char* symbol, auto& to) { return find(symbol, to) ? "" : symbol; };
    for (const std::string missing :
         {need("nvmlInit_v2", init), need("nvmlShutdown", shutdown), need("nvmlErrorString", error_string),
          need("nvmlDeviceGetCount_v2", count), need("nvmlDeviceGetHandleByIndex_v2", by_index),
          need("nvmlDeviceGetUUID", uuid), need("nvmlDeviceGetPowerUsage", power)})
      if (!missing.empty()) return missing;
    return {};
  }

  std::string why(Status status) const {
    const char* text = error_string(status);
    return text != nullptr ? text : fmt::format("status {}", status);
  }
};

Nvml::Nvml(std::unique_ptr<Library> library) : library_(std::move(library)) {}
Nvml::~Nvml() = default;

diag::Result<std::unique_ptr<Nvml>> Nvml::load(const std::string& library) {
  constexpr const char* kHelp =
      "install the NVIDIA driver; in a container, NVIDIA_DRIVER_CAPABILITIES must contain utility";
  auto bound = std::make_unique<Library>();
  bound->handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (bound->handle == nullptr) {
    const char* reason = ::dlerror();
    return diag::fail(diag::rule::power_unavailable,
                      fmt::format("NVML cannot be loaded: {}", reason != nullptr ? reason : library), kHelp);
  }
  if (const std::string missing = bound->bind(); !missing.empty())
    return diag::fail(diag::rule::power_unavailable, fmt::format("{} lacks the function {}", library, missing),
                      "a driver of CUDA 11 or later has it");
  if (const Status status = bound->init(); status != kSuccess)
    return diag::fail(diag::rule::power_unavailable, fmt::format("NVML cannot be initialised: {}", bound->why(status)),
                      kHelp);
  bound->initialised = true;
  std::unique_ptr<Nvml> nvml(new Nvml(std::move(bound)));
  if (auto problem = nvml->find_gpus()) return diag::fail(std::move(*problem));
  return nvml;
}

std::optional<diag::Diagnostic> Nvml::find_gpus() {
  std::array<char, 96> text{};  // NVML's own limit for names and UUIDs
  const auto text_size = static_cast<unsigned>(text.size());
  if (library_->driver_version != nullptr && library_->driver_version(text.data(), text_size) == kSuccess)
    driver_version_ = text.data();
  unsigned count = 0;
  if (const Status status = library_->count(&count); status != kSuccess)
    return diag::make(diag::rule::power_unavailable,
                      fmt::format("NVML cannot count the GPUs: {}", library_->why(status)));
  if (count > kMostGpus) return diag::make(diag::rule::power_unavailable, fmt::format("NVML counts {} GPUs", count));
  for (unsigned index = 0; index < count; ++index) {
    Device device = nullptr;
    NvmlGpu gpu{.index = index, .uuid = {}, .name = {}};
    Status status = library_->by_index(index, &device);
    if (status == kSuccess) status = library_->uuid(device, text.data(), text_size);
    if (status != kSuccess)
      return diag::make(diag::rule::power_unavailable,
                        fmt::format("GPU {} cannot be opened: {}", index, library_->why(status)),
                        "`nvidia-smi` shows what the driver says of it");
    gpu.uuid = text.data();
    if (library_->name != nullptr && library_->name(device, text.data(), text_size) == kSuccess) gpu.name = text.data();
    gpus_.push_back(std::move(gpu));
    handles_.push_back(device);
    instant_.push_back(library_->fields != nullptr);
  }
  return std::nullopt;
}

std::optional<double> Nvml::power_w(size_t gpu, std::string& problem) {
  if (instant_[gpu]) {
    FieldValue field{.field = kFieldPowerInstant};
    const Status status = library_->fields(handles_[gpu], 1, &field);
    if (status == kSuccess && field.status == kSuccess) {
      if (field.type == kTypeUnsigned) return field.value.integer / kMilliwattsPerWatt;
      if (field.type == kTypeUnsignedLongLong) return static_cast<double>(field.value.wide) / kMilliwattsPerWatt;
    }
  }
  unsigned milliwatts = 0;
  const Status status = library_->power(handles_[gpu], &milliwatts);
  if (status != kSuccess) {
    problem = fmt::format("power of GPU {}: {}", gpus_[gpu].index, library_->why(status));
    return std::nullopt;
  }
  instant_[gpu] = false;  // one kind of value for one GPU
  return milliwatts / kMilliwattsPerWatt;
}

Sample Nvml::read(size_t gpu, std::string& problem) {
  const Device device = handles_[gpu];
  Sample s;
  const int64_t before = base::monotonic_ns();
  s.power_w = power_w(gpu, problem);
  s.ns = before + (base::monotonic_ns() - before) / 2;
  unsigned value = 0;
  unsigned long long wide = 0;
  if (library_->energy != nullptr && library_->energy(device, &wide) == kSuccess)
    s.energy_j = static_cast<double>(wide) / kMillijoulesPerJoule;
  if (library_->clock != nullptr && library_->clock(device, kClockSm, &value) == kSuccess) s.sm_clock_mhz = value;
  if (library_->clock != nullptr && library_->clock(device, kClockMemory, &value) == kSuccess)
    s.memory_clock_mhz = value;
  if (library_->temperature != nullptr && library_->temperature(device, kTemperatureGpu, &value) == kSuccess)
    s.temperature_c = value;
  if (library_->throttle != nullptr && library_->throttle(device, &wide) == kSuccess) s.throttle_reasons = wide;
  MemoryInfo memory;
  if (library_->memory != nullptr && library_->memory(device, &memory) == kSuccess)
    s.memory_used_bytes = static_cast<int64_t>(memory.used);
  return s;
}

std::optional<std::vector<int64_t>> Nvml::processes(size_t gpu) {
  if (library_->processes == nullptr) return std::nullopt;
  std::vector<ProcessInfo> list(16);
  while (true) {
    auto count = static_cast<unsigned>(list.size());
    const Status status = library_->processes(handles_[gpu], &count, list.data());
    if (status == kSuccess) {
      list.resize(std::min<size_t>(count, list.size()));
      break;
    }
    // There are more, and more may come before the next call.
    if (status != kInsufficientSize || list.size() >= kMostProcesses) return std::nullopt;
    list.resize(list.size() * 2);
  }
  std::vector<int64_t> pids;
  pids.reserve(list.size());
  for (const ProcessInfo& process : list) pids.push_back(process.pid);
  return pids;
}

}  // namespace sweep::telemetry
