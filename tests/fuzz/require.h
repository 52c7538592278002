// An invariant of a fuzz target: what fails is said, and the process ends in a way that every fuzzer notices.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace sweep::fuzz {

inline void require(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "invariant broken: %s\n", what.c_str());
  std::abort();
}

}  // namespace sweep::fuzz
