// Load, validate and plan: from the checkout's files to the jobs that were asked for.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/diag/source_map.h"
#include "orchestrator/plan/job.h"

namespace sweep::pipeline {

struct EntrySelection {
  std::vector<std::string> entries;    // names or patterns with * and ?; empty: all
  std::vector<int64_t> concurrencies;  // empty: all of the entry
};

struct LoadedJobs {
  std::vector<plan::Job> jobs;
  diag::SourceMap sources;
};

// Everything wrong with the files goes to `diagnostics`.
LoadedJobs load_jobs(const std::filesystem::path& root, const EntrySelection& selection,
                     diag::Diagnostics& diagnostics);

}  // namespace sweep::pipeline
