// Reports of verifications as files, each of one host.
#pragma once

#include <filesystem>
#include <string>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/weights/report.h"

namespace sweep::weights {

// The report's name in a run's folder.
inline constexpr const char* kBundleReport = "weights.json";

struct HostReport {
  std::string host;    // the report's host, or the file's name if it does not say
  std::string source;  // the file's name; what diagnostics call it
  Report report;
};

// Reads what `sweepctl weights verify --report` writes, or the report in a run's folder. Fails if it is neither.
diag::Result<HostReport> read_host_report(const std::filesystem::path& path);

}  // namespace sweep::weights
