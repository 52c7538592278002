// One line of an engine's log.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "orchestrator/engine/decode_log.h"

namespace sweep::engine {

struct ParsedLine {
  std::optional<DecodeWindow> window;
  std::string problem;  // a window was meant, but cannot be
  std::optional<int64_t> new_tokens;
  std::optional<int64_t> cached_tokens;
  std::optional<int64_t> draft_tokens;
  std::optional<int64_t> steps_per_window;
  std::optional<double> forced_length;
  std::optional<LogTime> time;  // of the line
};

ParsedLine parse_log_line(std::string_view line, std::string_view engine);

// A line for a message: shortened, without control characters.
std::string printable(std::string_view line);

// Lines of any engine and of the libraries in it, which all write into the same log.
bool tells_of_compilation(std::string_view line);
bool tells_of_an_error(std::string_view line);
// What kind of error; the later in the list, the less it explains.
enum class Trouble : uint8_t { kOutOfMemory, kPortTaken, kDevice, kOther };
std::optional<Trouble> trouble_in(std::string_view line);
// The engine takes requests from here on.
bool tells_of_readiness(std::string_view line);

}  // namespace sweep::engine
