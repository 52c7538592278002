#include "kernels/bench/clocks.h"

#include <dlfcn.h>

namespace flashmla::bench {
namespace {

// Numbers of NVML's public C interface.
constexpr int kClockSm = 1;
constexpr int kClockMemory = 2;

template <typename Function>
bool find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  return function != nullptr;
}

}  // namespace

struct ClockReader::Library {
  void* handle = nullptr;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*driver_version)(char* text, unsigned length) = nullptr;
  int (*find_gpu)(const char* pci_bus_id, void** gpu) = nullptr;
  int (*clock)(void* gpu, int type, unsigned* mhz) = nullptr;
  bool started = false;

  ~Library() {
    if (started) shutdown();
    if (handle != nullptr) dlclose(handle);
  }

  bool load(const char* name) {
    handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return false;
    const bool complete = find(handle, "nvmlInit_v2", init) && find(handle, "nvmlShutdown", shutdown) &&
                          find(handle, "nvmlSystemGetDriverVersion", driver_version) &&
                          find(handle, "nvmlDeviceGetHandleByPciBusId_v2", find_gpu) &&
                          find(handle, "nvmlDeviceGetClockInfo", clock);
    started = complete && init() == 0;
    return started;
  }
};

ClockReader::ClockReader(const std::string& pci_bus_id, const char* library) : library_(new Library) {
  if (!library_->load(library)) return;
  char version[96] = {};
  if (library_->driver_version(version, sizeof version) == 0) driver_version_ = version;
  if (library_->find_gpu(pci_bus_id.c_str(), &gpu_) != 0) gpu_ = nullptr;
}

ClockReader::~ClockReader() = default;

std::optional<Clocks> ClockReader::read() const {
  if (gpu_ == nullptr) return std::nullopt;
  unsigned sm = 0, memory = 0;
  if (library_->clock(gpu_, kClockSm, &sm) != 0 || library_->clock(gpu_, kClockMemory, &memory) != 0) {
    return std::nullopt;
  }
  return Clocks{static_cast<int>(sm), static_cast<int>(memory)};
}

}  // namespace flashmla::bench
