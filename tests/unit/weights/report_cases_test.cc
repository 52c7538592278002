// Folders as people reported them: the reference data's cases about weights.
#include "orchestrator/weights/verify.h"
#include "tests/support/catch.h"
#include "tests/support/test_dir.h"
#include "tests/unit/weights/staging.h"

namespace sweep::weights {

namespace {

namespace fs = std::filesystem;

const std::string kModel = "example-org/Nimbus-V4-Flash";
const std::string kPinned = "3f1c0d5a9b7e4c2286d1a0f4e5b6c7d8e9f00112";

fs::path case_folder(const char* name) {
  const fs::path data = test::reference_data();
  return data.empty() ? data : data / "cases_from_reports" / name;
}

Pin pin_of_case(const fs::path& folder) {
  return pin_from_tree(folder / "tree.json", kModel, kPinned);
}

size_t count_ok(const Report& report) {
  size_t count = 0;
  for (const FileReport& file : report.files)
    if (file.status == FileStatus::kOk) ++count;
  return count;
}

std::vector<diag::Diagnostic> about(const Report& report, const std::string& path) {
  std::vector<diag::Diagnostic> found;
  for (const auto& finding : report.findings.items())
    if (finding.path == path) found.push_back(finding);
  return found;
}

}  // namespace

TEST_CASE("reported cases: the right size with other bytes is a mismatch with both digests") {
  const fs::path folder = case_folder("hub_same_size_other_bytes");
  if (folder.empty()) SWEEP_SKIP("no reference data");
  const Report report = verify(folder / "local", pin_of_case(folder));
  CHECK(!report.verified);
  CHECK((status_of(report, "model-00002-of-00003.safetensors") == FileStatus::kHashMismatch));
  CHECK(count_ok(report) == 5);
  CHECK(rules_of(report).count("weights/size-mismatch") == 0);
  CHECK(contains(messages_of(report), "6c67b318c96c233ebfdca0e2c7fdf9931c7a4dcf7ff0004ab9284ef5ae68ee94"));
  CHECK(contains(messages_of(report), "8fd58d55d870ab4502e1b7fb2fb1f717465f42219f88dc1c45809b4b6b48cb03"));
}

TEST_CASE("reported cases: a shard that only the index knows, and a stray one, are two findings") {
  const fs::path folder = case_folder("hub_index_names_missing_shard");
  if (folder.empty()) SWEEP_SKIP("no reference data");
  const Report report = verify(folder / "local", pin_of_case(folder));
  CHECK(!report.verified);
  const auto missing = about(report, "model-00004-of-00004.safetensors");
  REQUIRE(missing.size() == 1);
  CHECK(diag::rule_info(missing[0].rule).slug == "weights/index-names-missing-shard");
  const auto stray = about(report, "model.safetensors");
  REQUIRE(stray.size() == 1);
  CHECK(diag::rule_info(stray[0].rule).slug == "weights/extra-file");
  CHECK((status_of(report, "model.safetensors") == FileStatus::kExtra));
  CHECK(count_ok(report) == 6);
}

TEST_CASE("reported cases: records of two commits are counted, and prove nothing") {
  const fs::path folder = case_folder("hub_mixed_revisions");
  if (folder.empty()) SWEEP_SKIP("no reference data");
  const test::TestDir dir;
  fs::create_directories(dir / ".cache/huggingface");
  fs::copy(folder / "metadata", dir / ".cache/huggingface/download");
  for (const fs::path& staged : {dir.path(), folder / "metadata"}) {
    const Report report = verify(staged, pin_of_case(folder), {.records_only = true});
    CHECK(!report.verified);
    CHECK(!report.findings.has_errors());
    CHECK(report.bytes == 0);
    CHECK(contains(messages_of(report), "4 files of commit " + kPinned + " (pinned)"));
    CHECK(contains(messages_of(report), "1 file of commit a41be7720c93d5f6e8b1920374651827364fedcb: \"config.json\""));
    CHECK(contains(messages_of(report), "5 files: identifier only, bytes not hashed"));
    for (const FileReport& file : report.files)
      CHECK((file.status ==
             (file.path == "model.safetensors.index.json" ? FileStatus::kNotChecked : FileStatus::kIdentifierOnly)));
  }
}

TEST_CASE("reported cases: a page in place of a shard has another size and is a page") {
  const fs::path folder = case_folder("hub_html_instead_of_weights");
  if (folder.empty()) SWEEP_SKIP("no reference data");
  const Report report = verify(folder / "local", pin_of_case(folder));
  CHECK(!report.verified);
  const auto findings = about(report, "model-00003-of-00003.safetensors");
  REQUIRE(findings.size() == 2);
  CHECK(diag::rule_info(findings[0].rule).slug == "weights/size-mismatch");
  CHECK(contains(findings[0].message, "98 bytes, expected 79"));
  CHECK(diag::rule_info(findings[1].rule).slug == "weights/wrong-content");
  CHECK(contains(findings[1].message, "an HTML page (\"504 Gateway Time-out\")"));
}

}  // namespace sweep::weights
