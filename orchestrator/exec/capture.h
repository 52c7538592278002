// A child's answer as bytes: standard output and standard error apart, both limited.
#pragma once

#include <chrono>
#include <cstdint>
#include <stop_token>
#include <string>
#include <string_view>

#include "orchestrator/exec/process.h"

namespace sweep::exec {

struct Captured {
  ExitStatus status;
  std::string output;
  std::string errors;  // at most the first 64 KiB
};

struct CaptureLimits {
  std::chrono::milliseconds time{60'000};
  uint64_t output_bytes = 64u << 20;
};

// Runs to the end with `input` on standard input; `command.output` is not used. Fails with exec/cannot-start,
// exec/timeout, exec/interrupted or exec/output-too-large; a bad exit status is a value.
diag::Result<Captured> capture(const CommandSpec& command, std::string_view input, const CaptureLimits& limits,
                               const std::stop_token& stop);

}  // namespace sweep::exec
