#include "orchestrator/weights/report.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "orchestrator/base/hex.h"
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

struct ProofRow {
  Proof proof;
  std::string_view name;
};
constexpr auto kProofs =
    std::to_array<ProofRow>({{Proof::kNone, "none"}, {Proof::kHashed, "hashed"}, {Proof::kCached, "cached"}});

template <class T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

json text_or_null(const std::string& text) {
  return text.empty() ? json(nullptr) : json(base::valid_utf8(text));
}

const json* member(const json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

// Fields that may be absent or null; false if there is something else.
bool read(const json& object, const char* name, std::optional<std::string>& out) {
  const json* value = member(object, name);
  if (value == nullptr || value->is_null()) return true;
  if (!value->is_string()) return false;
  out = value->get<std::string>();
  return true;
}

bool read(const json& object, const char* name, std::optional<uint64_t>& out) {
  const json* value = member(object, name);
  if (value == nullptr || value->is_null()) return true;
  if (!value->is_number_unsigned()) return false;
  out = value->get<uint64_t>();
  return true;
}

bool read_digest(const json& object, const char* name, size_t digits, std::optional<std::string>& out) {
  if (!read(object, name, out)) return false;
  return !out || base::is_lower_hex(*out, digits);
}

bool read_stamp(const json& object, std::optional<uint64_t> size, std::optional<FileStamp>& out) {
  const json* value = member(object, "stamp");
  if (value == nullptr || value->is_null()) return true;
  if (!value->is_object() || !size) return false;
  std::optional<uint64_t> device;
  std::optional<uint64_t> inode;
  const json* mtime = member(*value, "mtime_ns");
  const json* ctime = member(*value, "ctime_ns");
  if (!read(*value, "device", device) || !read(*value, "inode", inode) || !device || !inode || mtime == nullptr ||
      !mtime->is_number_integer() || ctime == nullptr || !ctime->is_number_integer())
    return false;
  out = FileStamp{.device = *device, .inode = *inode, .size = *size, .mtime_ns = *mtime, .ctime_ns = *ctime};
  return true;
}

bool read_proof(const json& item, FileReport& file) {
  std::optional<std::string> text;
  if (!read(item, "proof", text)) return false;
  if (!text) {  // before there was a cache
    file.proof = file.sha256 || file.git_blob ? Proof::kHashed : Proof::kNone;
    return true;
  }
  const auto proof = parse_proof(*text);
  if (proof) file.proof = *proof;
  return proof.has_value();
}

std::optional<FileReport> file_from_json(const json& item) {
  if (!item.is_object()) return std::nullopt;
  const json* path = member(item, "path");
  const json* status = member(item, "status");
  if (path == nullptr || !path->is_string() || status == nullptr || !status->is_string() || !item.contains("size") ||
      !item.contains("sha256"))
    return std::nullopt;
  const auto parsed = parse_file_status(status->get_ref<const std::string&>());
  if (!parsed) return std::nullopt;
  FileReport file{.path = path->get<std::string>(), .size = {}, .sha256 = {}, .status = *parsed};
  if (!read(item, "size", file.size) || !read_digest(item, "sha256", base::kSha256Digits, file.sha256) ||
      !read_digest(item, "git_blob", base::kGitBlobDigits, file.git_blob) || !read_proof(item, file) ||
      !read_stamp(item, file.size, file.stamp) || !read(item, "expected_size", file.expected_size) ||
      !read_digest(item, "expected_sha256", base::kSha256Digits, file.expected_sha256) ||
      !read_digest(item, "expected_git_blob", base::kGitBlobDigits, file.expected_git_blob))
    return std::nullopt;
  return file;
}

json file_to_json(const FileReport& file) {
  json item = {{"path", base::valid_utf8(file.path)},     {"size", or_null(file.size)},
               {"sha256", or_null(file.sha256)},          {"git_blob", or_null(file.git_blob)},
               {"status", file_status_name(file.status)}, {"proof", proof_name(file.proof)}};
  if (file.expected_size) item["expected_size"] = *file.expected_size;
  if (file.expected_sha256) item["expected_sha256"] = *file.expected_sha256;
  if (file.expected_git_blob) item["expected_git_blob"] = *file.expected_git_blob;
  if (file.stamp)
    item["stamp"] = {{"device", file.stamp->device},
                     {"inode", file.stamp->inode},
                     {"mtime_ns", file.stamp->mtime_ns},
                     {"ctime_ns", file.stamp->ctime_ns}};
  return item;
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

std::string_view proof_name(Proof proof) {
  for (const ProofRow& row : kProofs)
    if (row.proof == proof) return row.name;
  return {};
}

std::optional<Proof> parse_proof(std::string_view text) {
  for (const ProofRow& row : kProofs)
    if (row.name == text) return row.proof;
  return std::nullopt;
}

void note_expected(FileReport& file, const PinnedFile& pinned) {
  if (pinned.size && pinned.size != file.size) file.expected_size = pinned.size;
  if (pinned.sha256 && pinned.sha256 != file.sha256) file.expected_sha256 = pinned.sha256;
  if (pinned.git_blob && pinned.git_blob != file.git_blob) file.expected_git_blob = pinned.git_blob;
}

json to_json(const Report& report) {
  json files = json::array();
  for (const FileReport& file : report.files) files.push_back(file_to_json(file));
  json findings = diag::to_json(report.findings);
  return {{"schema_version", kReportVersion},
          {"host", text_or_null(report.host)},
          {"model", report.model},
          {"revision", report.revision},
          {"pin_sha256", text_or_null(report.pin_sha256)},
          {"layout", report.layout},
          {"verified", report.verified},
          {"cancelled", report.cancelled},
          {"files", std::move(files)},
          {"bytes", report.bytes},
          {"bytes_cached", report.bytes_cached},
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
  const json* version = member(root, "schema_version");
  if (version != nullptr && version->is_number_integer() && *version > kReportVersion)
    return diag::fail(
        diag::rule::file_malformed,
        fmt::format("the report has schema_version {}; this sweepctl reads {}", version->dump(), kReportVersion),
        "read it with the sweepctl that wrote it, or a newer one");
  if (version == nullptr || *version != kReportVersion)
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
  std::optional<std::string> host;
  std::optional<std::string> layout;
  std::optional<std::string> pin;
  std::optional<uint64_t> cached;
  if (!read(root, "host", host) || !read(root, "layout", layout) ||
      !read_digest(root, "pin_sha256", base::kSha256Digits, pin) || !read(root, "bytes_cached", cached))
    return malformed("a field is of another type");
  report.host = host.value_or("");
  report.layout = layout.value_or(report.layout);
  report.pin_sha256 = pin.value_or("");
  report.bytes_cached = cached.value_or(0);
  std::set<std::string_view> paths;
  report.files.reserve(root["files"].size());
  for (const json& item : root["files"]) {
    auto file = file_from_json(item);
    if (!file) return malformed(fmt::format("entry {} of \"files\" has another form", report.files.size()));
    report.files.push_back(std::move(*file));
    if (!paths.insert(report.files.back().path).second)
      return malformed(fmt::format("\"{}\" is listed twice", report.files.back().path));
  }
  for (const json& item : root["findings"]) {
    auto finding = finding_from_json(item);
    if (!finding && item.is_object() && item.contains("rule") && item["rule"].is_string() &&
        diag::find_rule(item["rule"].get_ref<const std::string&>()) == nullptr)
      return diag::fail(
          diag::rule::file_malformed,
          fmt::format("a finding of the report is of rule {}, which is not known here", item["rule"].dump()),
          "use the same sweepctl on all hosts");
    if (!finding) return malformed("an entry of \"findings\" has another form");
    report.findings.add(std::move(*finding));
  }
  return report;
}

std::vector<KnownDigests> known_digests(const Report& report) {
  std::vector<KnownDigests> known;
  for (const FileReport& file : report.files)
    if (file.stamp && file.sha256)
      known.push_back({.stamp = *file.stamp, .sha256 = *file.sha256, .git_blob = file.git_blob.value_or("")});
  return known;
}

}  // namespace sweep::weights
