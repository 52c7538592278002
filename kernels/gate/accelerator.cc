#include "kernels/gate/accelerator.h"

#include <charconv>
#include <string>

namespace flashmla::gate {

bool runs_on(std::string_view arch, int capability_major, int capability_minor) {
  constexpr std::string_view kPrefix = "sm_";
  if (arch.substr(0, kPrefix.size()) != kPrefix) return false;
  arch.remove_prefix(kPrefix.size());
  int number = 0;
  const auto [end, error] = std::from_chars(arch.data(), arch.data() + arch.size(), number);
  if (error != std::errc() || number / 10 != capability_major) return false;
  const std::string_view suffix = arch.substr(static_cast<size_t>(end - arch.data()));
  if (suffix == "a") return number % 10 == capability_minor;
  return suffix.empty() && number % 10 <= capability_minor;
}

device::Result<Accelerator> open_accelerator(std::string_view arch, int ordinal) {
  const std::string wanted = "the library is built for " + std::string(arch);
  device::Result<device::Driver> driver = device::Driver::open();
  if (!driver) {
    return device::Status::failure(driver.message() + "; " + wanted +
                                   ": run the gate on a machine that has such a GPU and its driver, or gate a library "
                                   "built for cpu");
  }
  device::Result<device::Device> device = driver->device(ordinal);
  if (!device) return device.status();
  const device::DeviceInfo& info = device->info();
  if (!runs_on(arch, info.capability_major, info.capability_minor)) {
    return device::Status::failure("device " + std::to_string(ordinal) + " is \"" + info.name +
                                   "\" of compute capability " + info.capability() + ", " + wanted +
                                   ": choose another with --device, or build the library for this one");
  }
  device::Result<device::Stream> stream = device->create_stream();
  if (!stream) return stream.status();
  return Accelerator{std::move(*device), std::move(*stream)};
}

}  // namespace flashmla::gate
