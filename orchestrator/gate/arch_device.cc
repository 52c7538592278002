#include "orchestrator/gate/arch_device.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "orchestrator/diag/rules/kernels.h"

namespace sweep::gate {

diag::Result<diag::Done> check_device(Arch arch) {
  if (!is_cuda(arch)) return diag::Done{};
  // Of the driver on Linux, under WSL, and where a sandbox shows nothing but the devices.
  for (const char* sign : {"/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg"}) {
    std::error_code error;
    if (std::filesystem::exists(sign, error)) return diag::Done{};
  }
  const ArchInfo& info = arch_info(arch);
  return diag::fail(
      diag::rule::kernels_no_gpu,
      fmt::format("kernels for {} run on {}; this host has no NVIDIA driver, so no GPU to run them on", info.name,
                  info.runs_on),
      fmt::format("run it on such a host; `sweepctl kernels build --arch {}` compiles them without a GPU", info.name));
}

}  // namespace sweep::gate
