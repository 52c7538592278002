#include "orchestrator/weights/host_report.h"

#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/file.h"

namespace sweep::weights {

namespace {

constexpr uint64_t kLargestReport = uint64_t{64} << 20;  // a report of 100,000 files has 40 MB

}  // namespace

diag::Result<HostReport> read_host_report(const std::filesystem::path& path) {
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(path, ignored);
  const std::filesystem::path file = is_folder ? path / kBundleReport : path;
  const std::string source = file.generic_string();
  const auto text = base::read_file(file, kLargestReport);
  if (!text)
    return diag::fail(diag::make_at(diag::rule::file_unreadable, {.file = source}, text.error().text(),
                                    is_folder ? "name the folder of a run, or the report itself" : ""));
  auto report = report_from_json(nlohmann::json::parse(*text, nullptr, false));
  if (!report) {
    diag::Diagnostic diagnostic = std::move(report).error();
    diagnostic.where = diag::SourceSpan{.file = source};
    return diag::fail(std::move(diagnostic));
  }
  std::string host = report->host.empty() ? path.generic_string() : report->host;
  return HostReport{.host = std::move(host), .source = source, .report = std::move(*report)};
}

}  // namespace sweep::weights
