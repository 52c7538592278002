#include "orchestrator/telemetry/throttle.h"

#include <array>
#include <string_view>
#include <utility>

namespace sweep::telemetry {

std::string throttle_text(uint64_t reasons) {
  constexpr auto kNames = std::to_array<std::pair<uint64_t, std::string_view>>({
      {kSoftwarePowerCap, "power cap"},
      {kHardwareSlowdown, "hardware slowdown"},
      {kSoftwareThermal, "software thermal slowdown"},
      {kHardwareThermal, "hardware thermal slowdown"},
      {kPowerBrake, "power brake"},
  });
  std::string text;
  for (const auto& [bit, name] : kNames) {
    if ((reasons & bit) == 0) continue;
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text;
}

}  // namespace sweep::telemetry
