#include "orchestrator/judge/tolerance.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace sweep::judge {

namespace {

constexpr double kOverall = 3.3;
constexpr double kOneWindow = 4.0;
constexpr double kPrinted = 0.1;

constexpr std::array<Tolerance, 5> kTolerances{
    {{"acceptance length by the engine's counters", kOverall, 0, 0},
     {"acceptance length by windows of the log", kOverall, kPrinted, 0},
     {"acceptance length since the engine's start", kOverall, kPrinted, 0},
     {"acceptance length of one window, counted", kOneWindow, 0, 0},
     {"acceptance length of one window, printed with two decimals", kOneWindow, kPrinted, 0.005}}};

}  // namespace

const Tolerance& tolerance_of(AcceptanceFrom from) {
  return kTolerances[static_cast<size_t>(from)];
}

const Tolerance& tolerance_of_window(bool counted) {
  return kTolerances[counted ? 3 : 4];
}

std::span<const Tolerance> tolerances() {
  return kTolerances;
}

double chance(double length, int64_t draws, double deviations) {
  if (draws <= 0) return 0;
  const double fraction = length - std::floor(length);
  return deviations * std::sqrt(fraction * (1 - fraction) / static_cast<double>(draws));
}

double half_width(const Tolerance& tolerance, double length, int64_t draws) {
  constexpr double kRounding = 1e-9;
  const double by_chance = draws > 0 ? chance(length, draws, tolerance.deviations) + tolerance.rounding : 0;
  return std::max(tolerance.least, by_chance) + kRounding;
}

std::string_view acceptance_from_name(AcceptanceFrom from) {
  switch (from) {
    case AcceptanceFrom::kCounters:
      return "counters";
    case AcceptanceFrom::kLogWindows:
      return "log-windows";
    case AcceptanceFrom::kSinceStart:
      return "since-start";
  }
  return "counters";
}

}  // namespace sweep::judge
