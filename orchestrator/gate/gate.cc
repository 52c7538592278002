#include "orchestrator/gate/gate.h"

#include <fmt/format.h>

#include <chrono>
#include <system_error>

#include "orchestrator/base/clock.h"
#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/kernels.h"
#include "orchestrator/exec/process.h"

namespace sweep::gate {

namespace {

namespace rule = diag::rule;

constexpr std::chrono::minutes kQuickLimit{5};
constexpr std::chrono::minutes kFullLimit{30};
constexpr int kGateFailed = 4;  // the gate's own exit code

// The names of the failed cells; nothing if the document is not a report of the gate.
std::optional<std::vector<std::string>> failed_cells(const nlohmann::json& document) {
  if (!document.is_object() || !document.contains("cells") || !document["cells"].is_array()) return std::nullopt;
  std::vector<std::string> names;
  for (const nlohmann::json& cell : document["cells"]) {
    if (!cell.is_object() || !cell.contains("name") || !cell.contains("verdict") || !cell["name"].is_string())
      return std::nullopt;
    if (cell["verdict"] != "pass") names.push_back(cell["name"].get<std::string>());
  }
  return names;
}

}  // namespace

diag::Result<GateReport> run_gate(const KernelBuild& build, const GateRequest& request, const std::stop_token& stop) {
  const int64_t begin = base::monotonic_ns();
  const std::filesystem::path report_path = request.folder / "gate-report.json";
  GateReport report;
  report.log = request.folder / "gate.log";
  std::error_code ignored;
  std::filesystem::remove(report_path, ignored);
  std::filesystem::remove(report.log, ignored);
  const exec::CommandSpec command{.argv = {request.program.string(), "--library", build.library.string(), "--baseline",
                                           build.baseline.string(), "--report", report_path.string(), "--seed",
                                           std::to_string(request.seed), "--cases", request.full ? "full" : "quick"},
                                  .output = report.log};
  const auto status = exec::run(command, request.full ? kFullLimit : kQuickLimit, stop);
  if (!status) return diag::fail(status.error());
  const auto broken = [&](std::string_view what) {
    return diag::fail(rule::kernels_gate_broken, fmt::format("the gate {}", what),
                      fmt::format("read {}", report.log.string()));
  };
  if (!status->ok() && status->code != kGateFailed) return broken(fmt::format("ended with {}", status->text()));
  const auto text = base::read_file(report_path);
  if (!text) return broken("wrote no report");
  report.document = nlohmann::json::parse(*text, nullptr, false);
  auto failed = failed_cells(report.document);
  if (!failed) return broken("wrote a report that cannot be understood");
  report.failed_cells = std::move(*failed);
  report.cells = static_cast<int64_t>(report.document["cells"].size());
  // Exit status, verdict and cells must tell the same story.
  const bool says_pass = report.document.value("verdict", "") == "pass";
  report.passed = status->ok() && says_pass && report.failed_cells.empty() && report.cells > 0;
  if (!report.passed && status->ok()) return broken("exited with success but its report does not say so");
  report.seconds = static_cast<double>(base::monotonic_ns() - begin) * 1e-9;
  return report;
}

diag::Diagnostic gate_failure(const KernelBuild& build, const GateReport& report) {
  diag::Diagnostic diagnostic =
      diag::make(rule::kernels_gate_failed,
                 fmt::format("kernel build {}-{} failed {} of {} gate cells", arch_info(build.arch).name,
                             build.content_id, report.failed_cells.size(), report.cells),
                 fmt::format("read {}; no run is possible with these kernels", report.log.string()));
  constexpr size_t kMostNamed = 10;
  for (size_t i = 0; i < report.failed_cells.size() && i < kMostNamed; ++i)
    diagnostic.notes.push_back({fmt::format("failed cell: {}", report.failed_cells[i]), std::nullopt});
  return diagnostic;
}

}  // namespace sweep::gate
