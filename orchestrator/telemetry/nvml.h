// The management library of the NVIDIA driver, loaded when it is needed: nothing of CUDA is needed to build or to start
// sweepctl. The functions used are those of NVML's public C interface, unchanged since CUDA 11.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/telemetry/capture.h"

namespace sweep::telemetry {

inline constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

struct NvmlGpu {
  int64_t index = 0;  // of NVML: the order of PCI addresses, not CUDA's
  std::string uuid;
  std::string name;  // empty if the driver does not tell
};

// One thread at a time.
class Nvml {
 public:
  // Fails with power/unavailable: the library is not there, lacks a function that is needed, or its driver does not
  // answer. `library` is a path, or a name for the dynamic linker.
  static diag::Result<std::unique_ptr<Nvml>> load(const std::string& library = kNvmlLibrary);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  const std::vector<NvmlGpu>& gpus() const { return gpus_; }
  const std::string& driver_version() const { return driver_version_; }  // empty if the driver does not tell

  // Reads the GPU at a position of gpus(). `ns` is CLOCK_MONOTONIC, in the middle of reading the power. What the driver
  // does not tell is absent; if that is the power, `problem` says why.
  Sample read(size_t gpu, std::string& problem);

  // Whether read() gives the power of the moment; otherwise it is the driver's average, over a second on recent GPUs.
  bool reads_instant_power(size_t gpu) const { return instant_[gpu]; }

  // The processes that compute on a GPU. Nothing if the driver does not tell.
  std::optional<std::vector<int64_t>> processes(size_t gpu);

 private:
  struct Library;
  explicit Nvml(std::unique_ptr<Library> library);
  std::optional<diag::Diagnostic> find_gpus();
  std::optional<double> power_w(size_t gpu, std::string& problem);

  std::unique_ptr<Library> library_;
  std::vector<NvmlGpu> gpus_;
  std::vector<void*> handles_;
  std::vector<bool> instant_;
  std::string driver_version_;
};

}  // namespace sweep::telemetry
