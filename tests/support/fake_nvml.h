// A stand-in for libnvidia-ml.so.1: a real shared object with NVML's functions over GPUs that the test describes.
// Loaded by path; the test steers it through fake_nvml().
#pragma once

#include <cstdint>

namespace sweep::test {

// The state of all GPUs. Power rises by `power_step_mw` with each reading, so that samples differ.
struct FakeNvml {
  int init_status = 0;  // of nvmlInit_v2; others are of the call they are named after
  int count_status = 0;
  unsigned gpus = 2;
  unsigned power_mw = 500'000;
  unsigned power_step_mw = 0;
  int field_status = 0;  // of the instant power
  int clock_status = 0;
  int energy_status = 0;
  int process_status = 0;
  unsigned lost_gpu = 9999;  // from its `lost_after`th power reading on, every call on it fails as lost
  int64_t lost_after = 0;
  unsigned processes = 1;  // on each GPU, with pids from first_pid on
  unsigned first_pid = 1'000'000;
  unsigned long long throttle = 0x4;
  unsigned long long memory_used = 600ull << 20;

  // Written by the library.
  int64_t initialised = 0;  // nvmlInit_v2 minus nvmlShutdown
  int64_t power_readings = 0;
};

// Exported by the library: resets the state to the given one, reads it, and waits until so many power readings were
// made.
using FakeNvmlSet = void (*)(const FakeNvml*);
using FakeNvmlGet = void (*)(FakeNvml*);
using FakeNvmlWait = void (*)(int64_t power_readings);

}  // namespace sweep::test
