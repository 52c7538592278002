// The architectures kernels are built for.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>

namespace sweep::gate {

enum class Arch : uint8_t { kCpu, kSm90a, kSm100a, kSm103a };

struct CudaVersion {
  int major = 0;
  int minor = 0;
  int patch = 0;

  auto order() const { return std::tie(major, minor, patch); }
  friend bool operator==(const CudaVersion& a, const CudaVersion& b) { return a.order() == b.order(); }
  friend auto operator<=>(const CudaVersion& a, const CudaVersion& b) { return a.order() <=> b.order(); }
};

struct ArchInfo {
  Arch arch;
  std::string_view name;  // "cpu", "sm_90a", ...
  std::string_view runs_on;
  std::string_view hardware;  // what of it this version of the kernels has seen
  CudaVersion oldest_nvcc;    // that compiles for it; 0.0 where none is needed
};

std::span<const ArchInfo> archs();
const ArchInfo& arch_info(Arch arch);
std::optional<Arch> parse_arch(std::string_view name);
inline bool is_cuda(Arch arch) {
  return arch != Arch::kCpu;
}

}  // namespace sweep::gate
