// SWEEPCTL_CHECK states an invariant of our own code. It is never reachable from user input.
#pragma once

namespace sweep::base {
[[noreturn]] void check_failed(const char* condition, const char* file, int line);
}  // namespace sweep::base

#define SWEEPCTL_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::sweep::base::check_failed(#condition, __FILE__, __LINE__))
