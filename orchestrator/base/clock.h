// Time: monotonic for measuring, wall clock for labels.
#pragma once

#include <cstdint>
#include <string>

namespace sweep::base {

inline constexpr int64_t kNanosecondsPerSecond = 1'000'000'000;
inline constexpr int64_t kNanosecondsPerMillisecond = 1'000'000;

// CLOCK_MONOTONIC in nanoseconds.
int64_t monotonic_ns();

// Unix time in nanoseconds.
int64_t unix_ns();

// "2026-11-29T19:43:49Z"
std::string utc_text(int64_t unix_time_ns);

}  // namespace sweep::base
