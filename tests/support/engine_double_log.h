// What engines write into their logs, in the dialect of each.
#pragma once

#include <cstdint>
#include <string>

#include "tests/support/engine_double.h"

namespace sweep::test::double_log {

inline constexpr int64_t kDrafts = 7;

int64_t unix_ns();

// To standard output, at once.
void log(const std::string& line);

void log_start(const EngineDoubleOptions& options);
void log_ready(const EngineDoubleOptions& options);
void log_out_of_memory();
void log_compilation();
void log_prefill(int64_t new_tokens, int64_t cached_tokens);  // SGLang

struct LoggedWindow {
  int64_t steps = 0;
  int64_t accepted = 0;
  int64_t begin_ns = 0;  // Unix time
};
void log_window(Dialect dialect, const LoggedWindow& window);

}  // namespace sweep::test::double_log
