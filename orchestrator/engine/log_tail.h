// The end of an engine's log: what it was about when it ended, or did not become ready.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/engine/decode_log_line.h"

namespace sweep::engine {

// Bytes that the file has; 0 if it is not there.
uint64_t log_size(const std::filesystem::path& log);

struct LogTrouble {
  Trouble kind = Trouble::kOther;
  std::string text;  // the line, shortened, printable
};

// The line that explains most among the last megabytes: by kind, then the first of them.
std::optional<LogTrouble> worst_trouble(const std::filesystem::path& log);

// The rule and message for an engine that failed with these words, made more exact by what its log says; `rule` is that
// of a log that says nothing.
diag::Diagnostic failure_told_by(const std::filesystem::path& log, diag::RuleId rule, std::string message,
                                 std::string help);

}  // namespace sweep::engine
