// How far what was measured may be from what was asked for: the one table, for live runs and for recorded captures.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace sweep::judge {

// What an acceptance length was taken from.
enum class AcceptanceFrom : uint8_t {
  kCounters,    // 1 + accepted / steps, counted by the engine over the measured window
  kLogWindows,  // windows of the engine's log inside the measured window
  kSinceStart,  // the engine's own mean since it was started: warm-up is in it
};

// The half-width of the interval around the asked length: `deviations` standard deviations of the draws behind the
// figure, and at least `least`.
struct Tolerance {
  std::string_view what;
  double deviations;
  double least;     // explained by neither side's chance: rounding in print, steps from outside of the interval
  double rounding;  // added to the chance: of a figure that is printed
};

// Of the mean of a measured window. 3.3 deviations are passed by chance once in a thousand runs.
const Tolerance& tolerance_of(AcceptanceFrom from);
// Of a single window of decode steps, of which a run has many: 4 deviations, once in sixteen thousand.
const Tolerance& tolerance_of_window(bool counted);
std::span<const Tolerance> tolerances();

// Prompt tokens from a prefix cache as a share of all, up to which a point counts as cold: nothing in a live run, whose
// prompts share no prefix; of a recorded capture 1 %, since a beginning-of-sequence token that all prompts share is one
// of some thousand.
inline constexpr double kCacheHitsLive = 0.0;
inline constexpr double kCacheHitsRecorded = 0.01;

// `deviations` standard deviations of the mean of so many independent draws of a forced length: each is
// floor(length), plus one with the probability of the fraction f, so that one has the variance f (1 - f).
// 0 without draws.
double chance(double length, int64_t draws, double deviations);

double half_width(const Tolerance& tolerance, double length, int64_t draws);

std::string_view acceptance_from_name(AcceptanceFrom from);  // "counters", "log-windows", "since-start"

}  // namespace sweep::judge
