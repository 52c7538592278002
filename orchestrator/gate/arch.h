// The architectures kernels are built for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace sweep::gate {

enum class Arch : uint8_t { kCpu, kSm90a, kSm100a, kSm103a };

struct ArchInfo {
  Arch arch;
  std::string_view name;  // "cpu", "sm_90a", ...
  std::string_view runs_on;
  bool bundled;  // this version has sources for it
};

std::span<const ArchInfo> archs();
const ArchInfo& arch_info(Arch arch);
std::optional<Arch> parse_arch(std::string_view name);

}  // namespace sweep::gate
