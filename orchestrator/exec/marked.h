// Processes found by a mark in their environment, which children inherit: also those that left the process group of
// their parent, or outlived it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string_view>
#include <vector>

namespace sweep::exec {

// The variable that carries the mark. A mark is any text without a zero byte; it must be unique to one start.
inline constexpr const char* kMarkVariable = "SWEEPCTL_MARK";

// Those that run, are visible, and belong to this user.
std::vector<pid_t> marked_processes(std::string_view mark);

// The same for any variable: "NAME=value".
std::vector<pid_t> processes_with(std::string_view variable);

// SIGKILL to all of them, again until none is left (they may be starting others) or the time is over. How many were
// signalled at first.
size_t kill_marked(std::string_view mark, std::chrono::milliseconds limit = std::chrono::seconds(5));

}  // namespace sweep::exec
