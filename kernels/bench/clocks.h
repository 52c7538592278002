// The clocks a GPU runs at, from the management library of its driver (loaded at run time).
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace flashmla::bench {

struct Clocks {
  int sm_mhz = 0;
  int memory_mhz = 0;
};

class ClockReader {
 public:
  // `pci_bus_id` as device::DeviceInfo has it. Without the library, or without that GPU, there is nothing to read.
  explicit ClockReader(const std::string& pci_bus_id, const char* library = "libnvidia-ml.so.1");
  ~ClockReader();
  ClockReader(const ClockReader&) = delete;
  ClockReader& operator=(const ClockReader&) = delete;

  std::optional<Clocks> read() const;
  const std::string& driver_version() const { return driver_version_; }  // "580.159.04"; empty if unknown

 private:
  struct Library;
  std::unique_ptr<Library> library_;
  void* gpu_ = nullptr;
  std::string driver_version_;
};

}  // namespace flashmla::bench
