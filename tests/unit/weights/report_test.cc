#include "orchestrator/weights/report.h"

#include <nlohmann/json.hpp>

#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/weights.h"
#include "tests/support/catch.h"

namespace sweep::weights {

namespace {
Report made() {
  Report report{.model = "m",
                .revision = std::string(40, 'a'),
                .verified = false,
                .cancelled = true,
                .files = {},
                .bytes = 9,
                .seconds = 0.5,
                .findings = {}};
  report.files.push_back({.path = "a", .size = 4, .sha256 = std::string(64, 'b'), .status = FileStatus::kHashMismatch});
  report.files.push_back({.path = "b", .size = {}, .sha256 = {}, .status = FileStatus::kMissing});
  report.files[0].git_blob = std::string(40, 'd');
  report.files[0].proof = Proof::kCached;
  report.files[0].stamp = FileStamp{.device = 1, .inode = UINT64_MAX, .size = 4, .mtime_ns = -1, .ctime_ns = 5};
  report.files[1].expected_size = 3;
  report.files[1].expected_sha256 = std::string(64, 'e');
  report.files[1].expected_git_blob = std::string(40, 'e');
  report.host = "node7";
  report.layout = "hub-cache";
  report.pin_sha256 = std::string(64, 'f');
  report.bytes_cached = 4;
  diag::Diagnostic finding = diag::make(diag::rule::weights_extra_file, "message", "help");
  finding.severity = diag::Severity::kWarning;
  finding.path = "c";
  report.findings.add(finding);
  return report;
}
}  // namespace

TEST_CASE("weights report: goes through JSON unchanged") {
  const Report report = made();
  const auto json = to_json(report);
  CHECK(json["schema_version"] == 1);
  CHECK(json["files"][0]["status"] == "hash-mismatch");
  CHECK(json["warnings"] == 1);
  CHECK(json["errors"] == 0);
  const auto back = report_from_json(json);
  REQUIRE(back.has_value());
  CHECK((back->files == report.files));
  CHECK(back->cancelled);
  CHECK(back->findings.items()[0].path == "c");
  CHECK(back->findings.items()[0].severity == diag::Severity::kWarning);
  CHECK(to_json(*back) == json);
  CHECK(json["host"] == "node7");
  CHECK(json["layout"] == "hub-cache");
  CHECK(json["bytes_cached"] == 4);
  CHECK(json["files"][0]["proof"] == "cached");
  CHECK(json["files"][0]["stamp"] ==
        nlohmann::json({{"device", 1}, {"inode", UINT64_MAX}, {"mtime_ns", -1}, {"ctime_ns", 5}}));
  CHECK_FALSE(json["files"][1].contains("stamp"));
}

TEST_CASE("weights report: what came later may be absent, and what is to come is not looked at") {
  auto json = to_json(made());
  for (const char* key : {"host", "layout", "pin_sha256", "bytes_cached"}) json.erase(key);
  for (auto& file : json["files"])
    for (const char* key : {"git_blob", "proof", "stamp", "expected_size", "expected_sha256", "expected_git_blob"})
      file.erase(key);
  json["something"] = 1;
  json["files"][0]["something"] = 1;
  const auto report = report_from_json(json);
  REQUIRE(report.has_value());
  CHECK(report->host.empty());
  CHECK(report->layout == "plain");
  CHECK(report->pin_sha256.empty());
  CHECK((report->files[0].proof == Proof::kHashed));
  CHECK((report->files[1].proof == Proof::kNone));
}

TEST_CASE("weights report: one of a newer form is refused as such") {
  auto json = to_json(made());
  json["schema_version"] = kReportVersion + 1;
  const auto report = report_from_json(json);
  REQUIRE_FALSE(report.has_value());
  CHECK(contains(report.error().message, "has schema_version 2; this sweepctl reads 1"));
}

TEST_CASE("weights report: malformed digests, stamps and names are refused") {
  const auto refused = [](const char* pointer, const nlohmann::json& value) {
    auto json = to_json(made());
    json[nlohmann::json::json_pointer(pointer)] = value;
    CAPTURE(pointer, value.dump());
    CHECK_FALSE(report_from_json(json).has_value());
  };
  for (const nlohmann::json& bad : {nlohmann::json(""), nlohmann::json("abc"), nlohmann::json(7),
                                    nlohmann::json(std::string(64, 'G')), nlohmann::json(std::string(63, 'a'))}) {
    refused("/files/0/sha256", bad);
    refused("/files/0/git_blob", bad);
    refused("/files/1/expected_sha256", bad);
    refused("/files/1/expected_git_blob", bad);
    refused("/pin_sha256", bad);
  }
  refused("/files/0/size", -1);
  refused("/files/0/proof", "believed");
  refused("/files/0/stamp", 5);
  refused("/files/0/stamp/inode", "x");
  refused("/files/0/stamp/mtime_ns", nullptr);
  refused("/files/1/path", "a");  // twice
  refused("/host", 5);
  refused("/bytes_cached", -1);
}

TEST_CASE("weights report: what the pin says is noted where it is not what was found") {
  FileReport file{.path = "a", .size = 4, .sha256 = std::string(64, 'b')};
  note_expected(file, {.path = "a", .size = 4, .sha256 = std::string(64, 'b'), .git_blob = std::nullopt});
  CHECK_FALSE((file.expected_size || file.expected_sha256 || file.expected_git_blob));
  note_expected(file, {.path = "a", .size = 5, .sha256 = std::string(64, 'c'), .git_blob = std::string(40, 'd')});
  CHECK(file.expected_size == 5u);
  CHECK(file.expected_sha256 == std::string(64, 'c'));
  CHECK(file.expected_git_blob == std::string(40, 'd'));
}

TEST_CASE("weights report: a missing or mistyped field is refused") {
  const auto json = to_json(made());
  for (const char* key :
       {"schema_version", "model", "revision", "verified", "cancelled", "files", "findings", "bytes", "seconds"}) {
    CAPTURE(key);
    auto without = json;
    without.erase(key);
    CHECK(report_from_json(without).error().rule == diag::rule::file_malformed);
    auto mistyped = json;
    mistyped[key] = nullptr;
    CHECK(!report_from_json(mistyped).has_value());
  }
  auto bad_status = json;
  bad_status["files"][0]["status"] = "fine";
  CHECK(!report_from_json(bad_status).has_value());
  auto bad_rule = json;
  bad_rule["findings"][0]["rule"] = "no/such-rule";
  const auto unknown = report_from_json(bad_rule);
  REQUIRE_FALSE(unknown.has_value());
  CHECK(contains(unknown.error().message, "is of rule \"no/such-rule\", which is not known here"));
  CHECK(!report_from_json("text").has_value());
}

TEST_CASE("weights report: names of states go both ways") {
  for (int i = 0; i <= static_cast<int>(Proof::kCached); ++i)
    CHECK((parse_proof(proof_name(static_cast<Proof>(i))) == static_cast<Proof>(i)));
  for (int i = 0; i <= static_cast<int>(FileStatus::kNotChecked); ++i) {
    const auto status = static_cast<FileStatus>(i);
    CHECK(!file_status_name(status).empty());
    CHECK((parse_file_status(file_status_name(status)) == status));
  }
}

}  // namespace sweep::weights
