#include "orchestrator/weights/report.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "orchestrator/base/utf8.h"
#include "orchestrator/diag/render.h"
#include "orchestrator/diag/rules/file.h"

namespace sweep::weights {

namespace {

using nlohmann::json;

struct StatusRow {
  FileStatus status;
  std::string_view name;
};
constexpr auto kStatuses = std::to_array<StatusRow>({{FileStatus::kOk, "ok"},
                                                     {FileStatus::kMissing, "missing"},
                                                     {FileStatus::kSizeMismatch, "size-mismatch"},
                                                     {FileStatus::kHashMismatch, "hash-mismatch"},
                                                     {FileStatus::kNotPinned, "not-pinned"},
                                                     {FileStatus::kExtra, "extra"},
                                                     {FileStatus::kUnreadable, "unreadable"},
                                                     {FileStatus::kChanged, "changed"},
                                                     {FileStatus::kNotChecked, "not-checked"},
                                                     {FileStatus::kIdentifierOnly, "identifier-only"}});

template <class T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

const json* member(const json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

std::optional<FileReport> file_from_json(const json& item) {
  if (!item.is_object()) return std::nullopt;
  const json* path = member(item, "path");
  const json* size = member(item, "size");
  const json* sha256 = member(item, "sha256");
  const json* status = member(item, "status");
  if (path == nullptr || !path->is_string() || size == nullptr || !(size->is_null() || size->is_number_unsigned()) ||
      sha256 == nullptr || !(sha256->is_null() || sha256->is_string()) || status == nullptr || !status->is_string())
    return std::nullopt;
  const auto parsed = parse_file_status(status->get_ref<const std::string&>());
  if (!parsed) return std::nullopt;
  FileReport file{.path = path->get<std::string>(), .size = {}, .sha256 = {}, .status = *parsed};
  if (!size->is_null()) file.size = size->get<uint64_t>();
  if (!sha256->is_null()) file.sha256 = sha256->get<std::string>();
  return file;
}

std::optional<diag::Diagnostic> finding_from_json(const json& item) {
  if (!item.is_object()) return std::nullopt;
  for (const char* name : {"rule", "severity", "message", "help", "path"})
    if (const json* value = member(item, name); value == nullptr || !value->is_string()) return std::nullopt;
  const diag::RuleInfo* rule = diag::find_rule(item["rule"].get_ref<const std::string&>());
  if (rule == nullptr) return std::nullopt;
  diag::Diagnostic finding = diag::make(*rule, item["message"], item["help"]);
  finding.path = item["path"];
  for (const auto severity : {diag::Severity::kError, diag::Severity::kWarning, diag::Severity::kNote})
    if (item["severity"] == diag::severity_name(severity)) finding.severity = severity;
  return finding;
}

}  // namespace

std::string_view file_status_name(FileStatus status) {
  for (const StatusRow& row : kStatuses)
    if (row.status == status) return row.name;
  return {};
}

std::optional<FileStatus> parse_file_status(std::string_view text) {
  for (const StatusRow& row : kStatuses)
    if (row.name == text) return row.status;
  return std::nullopt;
}

json to_json(const Report& report) {
  json files = json::array();
  for (const FileReport& file : report.files)
    files.push_back({{"path", base::valid_utf8(file.path)},
                     {"size", or_null(file.size)},
                     {"sha256", or_null(file.sha256)},
                     {"status", file_status_name(file.status)}});
  json findings = diag::to_json(report.findings);
  return {{"schema_version", kReportVersion},
          {"model", report.model},
          {"revision", report.revision},
          {"verified", report.verified},
          {"cancelled", report.cancelled},
          {"files", std::move(files)},
          {"bytes", report.bytes},
          {"seconds", report.seconds},
          {"findings", std::move(findings["diagnostics"])},
          {"errors", report.findings.error_count()},
          {"warnings", report.findings.warning_count()}};
}

diag::Result<Report> report_from_json(const json& root) {
  const auto malformed = [](std::string_view what) {
    return diag::fail(diag::rule::file_malformed, fmt::format("not a report of verified weights: {}", what));
  };
  if (!root.is_object()) return malformed("not an object");
  const auto is = [&](const char* name, auto check) {
    const json* value = member(root, name);
    return value != nullptr && check(*value);
  };
  const auto text = [](const json& v) { return v.is_string(); };
  const auto flag = [](const json& v) { return v.is_boolean(); };
  const auto list = [](const json& v) { return v.is_array(); };
  if (!is("schema_version", [](const json& v) { return v == kReportVersion; }))
    return malformed(fmt::format("schema_version is not {}", kReportVersion));
  if (!is("model", text) || !is("revision", text) || !is("verified", flag) || !is("cancelled", flag) ||
      !is("files", list) || !is("findings", list) ||
      !is("bytes", [](const json& v) { return v.is_number_unsigned(); }) ||
      !is("seconds", [](const json& v) { return v.is_number(); }))
    return malformed("a field is missing or of another type");
  Report report{.model = root["model"],
                .revision = root["revision"],
                .verified = root["verified"],
                .cancelled = root["cancelled"],
                .files = {},
                .bytes = root["bytes"],
                .seconds = root["seconds"],
                .findings = {}};
  for (const json& item : root["files"]) {
    auto file = file_from_json(item);
    if (!file) return malformed("an entry of \"files\" has another form");
    report.files.push_back(std::move(*file));
  }
  for (const json& item : root["findings"]) {
    auto finding = finding_from_json(item);
    if (!finding) return malformed("an entry of \"findings\" has another form");
    report.findings.add(std::move(*finding));
  }
  return report;
}

}  // namespace sweep::weights
