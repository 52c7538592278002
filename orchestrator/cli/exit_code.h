// Exit codes, the same for every command. Several problems: the first of kInternal, kCouldNotRun, kGateFailed,
// kInvalid, kProblems decides.
#pragma once

#include <cstdint>

namespace sweep::cli {

enum class ExitCode : uint8_t {
  kGood = 0,         // done and good
  kProblems = 1,     // problems found in the inputs
  kUsage = 2,        // wrong usage
  kCouldNotRun = 3,  // I/O, network, toolchain, engine, scheduler: the only one where a retry helps
  kGateFailed = 4,   // a kernel gate failed
  kInvalid = 5,      // measured but judged invalid, or a regression
  kInternal = 70,    // a bug in sweepctl
  kInterrupted = 130,
  kTerminated = 143,
};

}  // namespace sweep::cli
