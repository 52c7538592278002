#include "orchestrator/pipeline/weights_agreement.h"

#include <fmt/format.h>

#include <vector>

#include "orchestrator/diag/rules/run.h"
#include "orchestrator/weights/agree.h"

namespace sweep::pipeline {

namespace {

namespace rule = diag::rule;
using nlohmann::json;

static_assert(kStageFileVersion == weights::kReportVersion, "a run's weights.json is read as a report");

diag::Result<weights::HostReport> own_report(const Line& line, json document) {
  document["schema_version"] = weights::kReportVersion;
  auto report = weights::report_from_json(document);
  if (!report) return diag::fail(std::move(report).error());
  std::string host = report->host.empty() ? "this host" : report->host;
  return weights::HostReport{
      .host = std::move(host), .source = line.folder.file(stage_file::kWeights).string(), .report = std::move(*report)};
}

// Of the comparison what a reader of the bundle needs; the report itself is in the same document.
json record_of(const weights::Agreement& agreement, std::span<const weights::HostReport> reports) {
  json document = weights::to_json(agreement, reports);
  json record = json::object();
  for (const char* key : {"agreed", "hosts", "hosts_from_cache", "identical", "differences"})
    record[key] = std::move(document[key]);
  return record;
}

}  // namespace

diag::Result<diag::Done> agree_with_hosts(const Line& line, json& document) {
  const auto& files = line.options.weights_reports;
  if (files.empty()) {
    const auto known = document.find("agreement");
    if (known == document.end() || !known->is_object() || known->value("agreed", json()) == true) return diag::Done{};
    return diag::fail(rule::run_weights_disagree,
                      "the hosts of this run did not agree on the weights that are staged now",
                      "give the reports of the other hosts with --weights-report");
  }
  auto own = own_report(line, document);
  if (!own) return diag::fail(std::move(own).error());
  std::vector<weights::HostReport> reports{std::move(*own)};
  bool all_read = true;
  for (const std::filesystem::path& file : files) {
    auto report = weights::read_host_report(file);
    if (report) {
      reports.push_back(std::move(*report));
    } else {
      all_read = false;
      line.diagnostics.add(std::move(report).error());
    }
  }
  weights::Agreement agreement = weights::agree(reports);
  agreement.agreed = agreement.agreed && all_read;
  line.diagnostics.add_all(agreement.findings);
  document["agreement"] = record_of(agreement, reports);
  if (auto written = line.folder.write(stage_file::kWeights, document); !written) return written;
  if (agreement.agreed) return diag::Done{};
  return diag::fail(rule::run_weights_disagree,
                    fmt::format("this host and those of {} report{} do not hold the same verified weights",
                                files.size(), files.size() == 1 ? "" : "s"),
                    "see the findings above; nothing was started");
}

void void_agreement(const json& before, json& document) {
  const auto known = before.find("agreement");
  if (known == before.end() || !known->is_object()) return;
  document["agreement"] = *known;
  document["agreement"]["agreed"] = false;
}

}  // namespace sweep::pipeline
