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
  CHECK(!report_from_json(bad_rule).has_value());
  CHECK(!report_from_json("text").has_value());
}

TEST_CASE("weights report: names of states go both ways") {
  for (int i = 0; i <= static_cast<int>(FileStatus::kNotChecked); ++i) {
    const auto status = static_cast<FileStatus>(i);
    CHECK(!file_status_name(status).empty());
    CHECK((parse_file_status(file_status_name(status)) == status));
  }
}

}  // namespace sweep::weights
