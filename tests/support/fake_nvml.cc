// See fake_nvml.h. SWEEP_FAKE_NVML_OLD leaves out what old drivers lack, SWEEP_FAKE_NVML_BROKEN a function that is
// needed.
#include "tests/support/fake_nvml.h"

#include <condition_variable>
#include <cstdio>
#include <map>
#include <mutex>

using sweep::test::FakeNvml;

namespace {

constexpr int kNotSupported = 3;
constexpr int kInsufficientSize = 7;
constexpr int kLost = 15;

std::mutex mutex;
std::condition_variable read_power;
FakeNvml state;
std::map<unsigned, int64_t> readings;  // of each GPU

// Handles are 1 more than the index: no handle is null.
unsigned index_of(void* device) {
  return static_cast<unsigned>(reinterpret_cast<uintptr_t>(device) - 1);
}

bool is_lost(unsigned gpu) {
  return gpu == state.lost_gpu && readings[gpu] >= state.lost_after;
}

int next_power(void* device, unsigned* milliwatts) {
  const unsigned gpu = index_of(device);
  if (is_lost(gpu)) {
    ++state.power_readings;
    read_power.notify_all();
    return kLost;
  }
  *milliwatts = state.power_mw + static_cast<unsigned>(readings[gpu]++) * state.power_step_mw;
  ++state.power_readings;
  read_power.notify_all();
  return 0;
}

struct Memory {
  unsigned long long total, free, used;
};
struct Process {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};
struct Field {
  unsigned id, scope;
  long long timestamp, latency;
  int type, status;
  union {
    double floating;
    unsigned integer;
    unsigned long long wide;
  } value;
};

}  // namespace

extern "C" {

void fake_nvml_set(const FakeNvml* to) {
  const std::lock_guard lock(mutex);
  state = *to;
  readings.clear();
}

void fake_nvml_get(FakeNvml* to) {
  const std::lock_guard lock(mutex);
  *to = state;
}

void fake_nvml_wait(int64_t power_readings) {
  std::unique_lock lock(mutex);
  read_power.wait(lock, [&] { return state.power_readings >= power_readings; });
}

int nvmlInit_v2() {
  const std::lock_guard lock(mutex);
  if (state.init_status == 0) ++state.initialised;
  return state.init_status;
}

int nvmlShutdown() {
  const std::lock_guard lock(mutex);
  --state.initialised;
  return 0;
}

const char* nvmlErrorString(int status) {
  switch (status) {
    case 3:
      return "Not Supported";
    case 9:
      return "Driver Not Loaded";
    case 15:
      return "GPU is lost";
    default:
      return "Unknown Error";
  }
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  const std::lock_guard lock(mutex);
  *count = state.gpus;
  return state.count_status;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = reinterpret_cast<void*>(static_cast<uintptr_t>(index) + 1);
  return 0;
}

int nvmlDeviceGetUUID(void* device, char* text, unsigned size) {
  std::snprintf(text, size, "GPU-%08u-0000", index_of(device));
  return 0;
}

#ifndef SWEEP_FAKE_NVML_BROKEN
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  const std::lock_guard lock(mutex);
  return next_power(device, milliwatts);
}
#endif

int nvmlDeviceGetClockInfo(void* device, int type, unsigned* mhz) {
  const std::lock_guard lock(mutex);
  if (is_lost(index_of(device))) return kLost;
  *mhz = type == 1 ? 1980 : 3201;
  return state.clock_status;
}

int nvmlDeviceGetTemperature(void* device, int, unsigned* celsius) {
  const std::lock_guard lock(mutex);
  *celsius = 45;
  return is_lost(index_of(device)) ? kLost : 0;
}

int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  const std::lock_guard lock(mutex);
  *memory = {.total = 1ull << 37, .free = (1ull << 37) - state.memory_used, .used = state.memory_used};
  return is_lost(index_of(device)) ? kLost : 0;
}

#ifdef SWEEP_FAKE_NVML_OLD
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
#else
int nvmlDeviceGetCurrentClocksEventReasons(void* device, unsigned long long* reasons) {
#endif
  const std::lock_guard lock(mutex);
  *reasons = state.throttle;
  return is_lost(index_of(device)) ? kLost : 0;
}

#ifndef SWEEP_FAKE_NVML_OLD
int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  std::snprintf(text, size, "580.00");
  return 0;
}

int nvmlDeviceGetName(void*, char* text, unsigned size) {
  std::snprintf(text, size, "Fake H200");
  return 0;
}

int nvmlDeviceGetFieldValues(void* device, int count, Field* fields) {
  const std::lock_guard lock(mutex);
  if (count != 1 || fields[0].id != 186) return kNotSupported;
  if (state.field_status != 0) {
    fields[0].status = state.field_status;
    return 0;
  }
  fields[0].type = 1;
  fields[0].status = next_power(device, &fields[0].value.integer);
  return 0;
}

int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  const std::lock_guard lock(mutex);
  if (is_lost(index_of(device))) return kLost;
  *millijoules = 1'000'000ull + static_cast<unsigned long long>(readings[index_of(device)]) * 25'000ull;
  return state.energy_status;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, Process* list) {
  const std::lock_guard lock(mutex);
  if (is_lost(index_of(device))) return kLost;
  if (state.process_status != 0) return state.process_status;
  const unsigned room = *count;
  *count = state.processes;
  if (room < state.processes) return kInsufficientSize;
  for (unsigned i = 0; i < state.processes; ++i)
    list[i] = {.pid = state.first_pid + i, .used = 1, .gpu_instance = 0, .compute_instance = 0};
  return 0;
}
#endif

}  // extern "C"
