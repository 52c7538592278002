#include "orchestrator/gate/arch.h"

#include <array>

namespace sweep::gate {

namespace {
constexpr std::array<ArchInfo, 4> kArchs{{
    {Arch::kCpu, "cpu", "any host", true},
    {Arch::kSm90a, "sm_90a", "H200", false},
    {Arch::kSm100a, "sm_100a", "B200", false},
    {Arch::kSm103a, "sm_103a", "B300", false},
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
