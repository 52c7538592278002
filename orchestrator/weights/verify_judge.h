// What the content of staged files says against the pin, file by file.
#pragma once

#include <span>

#include "orchestrator/weights/hash_files.h"
#include "orchestrator/weights/pin.h"
#include "orchestrator/weights/report.h"
#include "orchestrator/weights/staged_files.h"

namespace sweep::weights {

struct Hashed {
  const Pin& pin;
  const Staging& staging;
  std::span<const HashOutcome> outcomes;  // as staging.files
};

// Adds every pinned and every extra file to the report, with a finding for each that is not as pinned.
void judge_files(const Hashed& hashed, Report& report);

// An error that concerns a file, whatever the rule's own severity; `path` may be empty.
void add_error(Report& report, diag::Diagnostic diagnostic, const std::string& path);

}  // namespace sweep::weights
