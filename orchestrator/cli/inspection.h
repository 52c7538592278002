// What `inspect` has found in one capture, and how it is said: figures, each condition that the capture decides, and
// everything that makes a point invalid.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/cli/command.h"
#include "orchestrator/judge/verdict.h"
#include "orchestrator/report/inspection.h"

namespace sweep::cli {

// A line of the table for people.
struct Figure {
  std::string name;
  std::string value;
  std::string how;  // it was computed; may be empty
};

struct Inspection {
  std::string kind;         // "sse", "metrics", "decode-log"
  std::string file;         // that findings without a place are about
  nlohmann::json document;  // the figures by name, without `valid` and `reasons`
  std::vector<Figure> table;
  std::vector<std::string> remarks;        // below the table
  judge::Verdict verdict;                  // failed conditions become findings
  std::map<diag::RuleId, uint32_t> lines;  // of `file` that decided a condition, where one did
  diag::Diagnostics findings;              // errors make the point invalid
};

// Writes one document (--format json) or a table, the findings, and the conclusion. kGood or kInvalid.
ExitCode conclude(const Context& context, Inspection inspection);

// The same for what was found elsewhere; `text` is the table and the conclusion. Without values it could not be read.
ExitCode conclude(const Context& context, const report::Inspection& inspection, const std::string& text);

// A capture that cannot be read: the same document without figures, and the finding. Gives its exit code.
ExitCode refuse(const Context& context, std::string_view kind, const diag::Diagnostic& finding);

// The whole file; fails with file/too-large beyond `most` bytes.
diag::Result<std::string> read_capture(const std::string& path, uint64_t most);

// "-" for what is not known.
std::string shown(const std::optional<double>& value, int decimals);
std::string shown(const std::optional<int64_t>& value);
nlohmann::json optional_json(const std::optional<double>& value);
nlohmann::json optional_json(const std::optional<int64_t>& value);

}  // namespace sweep::cli
