// What `plan full-sweep`, `plan test-config` and `plan changes` have in common when they hand rows to a workflow.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/cli/command.h"
#include "orchestrator/plan/changes.h"
#include "orchestrator/report/github_files.h"

namespace sweep::cli {

struct GithubOptions {
  bool enabled = false;
  std::string chunk_dir;  // files instead of outputs
};

void add_github_options(CLI::App& command, GithubOptions& options);

// Names of the outputs, for --help; `more` lines about further ones.
std::string github_help(std::string_view more = {});

// Splits the buckets, appends to $GITHUB_OUTPUT and $GITHUB_STEP_SUMMARY where they are set, and prints a table.
// `more` are outputs beside those of the chunks.
ExitCode hand_over(const Context& context, std::span<const plan::Bucket> buckets, const GithubOptions& options,
                   std::vector<report::StepOutput> more = {});

// Findings of the files and of the rows made from them, sorted.
diag::Diagnostics joined(const diag::Diagnostics& files, const diag::Diagnostics& rows);

// A runner without nodes is an error of the files, but its rows are still well-defined.
void demote_unknown_runners(diag::Diagnostics& diagnostics);

}  // namespace sweep::cli
