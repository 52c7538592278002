// Catch2 v2 and v3 behind one include. Use the macros both have; for text use CHECK(contains(text, part)).
#pragma once

#ifdef SWEEPCTL_CATCH2_V2
#include <catch2/catch.hpp>
using Catch::Detail::Approx;
#else
#include <catch2/catch_all.hpp>
using Catch::Approx;
#endif

#include <cstdio>
#include <string>
#include <string_view>

// Catch2 v2 cannot skip: CTest recognises this line (SKIP_REGULAR_EXPRESSION in SweepModule.cmake).
#define SWEEP_SKIP(reason)                                     \
  do {                                                         \
    std::printf("SKIPPED: %s\n", std::string(reason).c_str()); \
    return;                                                    \
  } while (false)

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}
