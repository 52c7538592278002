// Why a GPU's clocks are lower than they could be: the bits of NVML's clocks event reasons, as nvidia-smi prints them
// for clocks_event_reasons.active.
#pragma once

#include <cstdint>
#include <string>

namespace sweep::telemetry {

inline constexpr uint64_t kSoftwarePowerCap = 0x4;
inline constexpr uint64_t kHardwareSlowdown = 0x8;
inline constexpr uint64_t kSoftwareThermal = 0x20;
inline constexpr uint64_t kHardwareThermal = 0x40;
inline constexpr uint64_t kPowerBrake = 0x80;

// Bits under which a measurement says nothing about the GPU as it is meant to run. Idle (0x1), chosen application
// clocks (0x2), sync boost (0x10) and display clocks (0x100) are none of them; the power limit is a limit of the
// product itself and is only noted.
inline constexpr uint64_t kSlowdowns = kHardwareSlowdown | kSoftwareThermal | kHardwareThermal | kPowerBrake;

// "hardware thermal slowdown, power brake": the names of kSlowdowns and the power cap among the bits.
std::string throttle_text(uint64_t reasons);

}  // namespace sweep::telemetry
