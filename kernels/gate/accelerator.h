// The device that a gate runs on.
#pragma once

#include <string_view>

#include "kernels/device/driver.h"

namespace flashmla::gate {

struct Accelerator {
  device::Device device;
  device::Stream stream;  // given to the library

  // False once a kernel has failed in a way that the driver does not recover from.
  bool usable() const { return stream.synchronize().ok(); }
};

// Opens device `ordinal` for a library built for `arch` ("sm_90a"). Fails, and says what to do, without a driver,
// without that device, and where the device cannot run such code.
device::Result<Accelerator> open_accelerator(std::string_view arch, int ordinal);

// Whether code for `arch` runs on a device of that compute capability: "sm_90a" on 9.0 alone, "sm_80" on 8.0 and above
// within 8.
bool runs_on(std::string_view arch, int capability_major, int capability_minor);

}  // namespace flashmla::gate
