#include "orchestrator/gate/arch.h"

#include <array>

namespace sweep::gate {

namespace {
// Versions: PTX ISA 8.0 (CUDA 12.0) has sm_90a, 8.6 (CUDA 12.8's nvcc) sm_100a, 8.8 (CUDA 12.9) sm_103a.
constexpr std::array<ArchInfo, 4> kArchs{{
    {Arch::kCpu, "cpu", "any host", "measured on x86-64", {}},
    {Arch::kSm90a, "sm_90a", "H200", "measured on H200", {12, 0, 0}},
    {Arch::kSm100a, "sm_100a", "B200", "compiled, not run on hardware", {12, 8, 0}},
    {Arch::kSm103a, "sm_103a", "B300", "compiled, not run on hardware", {12, 9, 0}},
}};
}  // namespace

std::span<const ArchInfo> archs() {
  return kArchs;
}

const ArchInfo& arch_info(Arch arch) {
  return kArchs[static_cast<size_t>(arch)];
}

std::optional<Arch> parse_arch(std::string_view name) {
  for (const ArchInfo& info : kArchs)
    if (info.name == name) return info.arch;
  return std::nullopt;
}

}  // namespace sweep::gate
