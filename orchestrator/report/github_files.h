// What workflow steps leave in the files that GitHub Actions names: outputs and the step summary. Formats only.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "orchestrator/plan/chunks.h"

namespace sweep::report {

struct StepOutput {
  std::string name;   // letters, digits, "-" and "_"
  std::string value;  // any text; lines are kept
};

// The lines for $GITHUB_OUTPUT. A value can neither end its output early nor begin another one.
std::string output_lines(std::span<const StepOutput> outputs);

// What the outputs take from the limit of a job, in bytes of UTF-16, also where they are handed on together as
// toJSON(steps.ID.outputs).
size_t output_bytes(std::span<const StepOutput> outputs);

// A table of the chunks, one line a bucket, for the step summary and for people.
std::string chunk_markdown(std::span<const plan::Chunk> chunks);
std::string chunk_text(std::span<const plan::Chunk> chunks);

}  // namespace sweep::report
