#include "orchestrator/weights/download_records.h"

#include "orchestrator/digest/sha1.h"
#include "orchestrator/weights/verify.h"
#include "tests/support/catch.h"
#include "tests/support/test_dir.h"
#include "tests/support/tiny_model.h"
#include "tests/unit/weights/staging.h"

namespace sweep::weights {

namespace {

namespace fs = std::filesystem;

const std::string kCommit(40, '1');
const std::string kAnotherCommit(40, 'a');

// Why the text is no record; empty if it is one.
std::string refused(const std::string& text) {
  DownloadRecord record;
  std::string reason;
  const bool parsed = parse_download_record(text, record, reason);
  CHECK(parsed == reason.empty());
  return reason;
}

// A model fetched into a folder, with the client's records.
struct Fetched {
  test::TestDir dir;
  Pin pin;

  Fetched() {
    test::write_tiny_model(dir.path());
    pin = pin_of(dir.path(), "org/tiny");
    make_local_dir(dir.path(), pin);
  }
  void record(const std::string& path, const std::string& commit, const std::string& etag) const {
    write_record(dir.path(), path, record_text(commit, etag));
  }
  std::string sha256(const std::string& path) const {
    for (const PinnedFile& file : pin.files)
      if (file.path == path) return *file.sha256;
    return {};
  }
  Report verify(bool records_only = false) const {
    return weights::verify(dir.path(), pin, {.records_only = records_only});
  }
};

}  // namespace

TEST_CASE("download record: commit, identifier and time are read") {
  DownloadRecord record;
  std::string reason;
  REQUIRE(parse_download_record(kCommit + "\nabc\n1789385123.456789\n", record, reason));
  CHECK(record.commit == kCommit);
  CHECK(record.etag == "abc");
  CHECK(record.written == Approx(1789385123.456789));
  CHECK(refused(kCommit + "\r\nabc\r\n1\r\n").empty());
  CHECK(refused(kCommit + "\nabc\n1").empty());
}

TEST_CASE("download record: anything else is refused with a reason") {
  for (const std::string& text :
       {std::string(), std::string("\n\n\n"), std::string("main\nabc\n1\n"), std::string(40, 'G') + "\nabc\n1\n"}) {
    CAPTURE(text);
    CHECK(contains(refused(text), "40 hex digits"));
  }
  CHECK(contains(refused(kCommit + "\n\n1\n"), "identifier"));
  for (const char* time : {"", "x", "1.5x", "nan", "inf"}) CHECK(contains(refused(kCommit + "\nabc\n" + time), "time"));
}

TEST_CASE("records: those of the pinned commit and content say nothing") {
  const Fetched m;
  const Report report = m.verify();
  CHECK(report.verified);
  CHECK(report.findings.empty());
}

TEST_CASE("records: other commits are one warning with counts, and the smaller group's files by name") {
  const Fetched m;
  m.record("config.json", kAnotherCommit, m.sha256("config.json"));
  Report report = m.verify();
  CHECK(report.verified);
  CHECK(rules_of(report) == Rules{"weights/mixed-revisions"});
  CHECK(report.findings.items().size() == 1);
  CHECK(contains(messages_of(report), "5 files of commit " + m.pin.revision + " (pinned)"));
  CHECK(contains(messages_of(report), "1 file of commit " + kAnotherCommit + ": \"config.json\""));
  for (const PinnedFile& file : m.pin.files) m.record(file.path, kAnotherCommit, *file.sha256);
  report = m.verify();
  CHECK(report.verified);
  CHECK(contains(messages_of(report), "6 files of commit " + kAnotherCommit));
}

TEST_CASE("records: another identifier is a warning, and never makes wrong content right") {
  const Fetched m;
  m.record("config.json", m.pin.revision, std::string(64, '0'));
  Report report = m.verify();
  CHECK(report.verified);
  CHECK(rules_of(report) == Rules{"weights/stale-record"});
  m.record("config.json", m.pin.revision, m.sha256("config.json"));
  m.dir.write("config.json", R"({"architectures":["Tinx"]})");
  report = m.verify();
  CHECK(!report.verified);
  CHECK(rules_of(report) == Rules{"weights/hash-mismatch"});
}

TEST_CASE("records: a SHA-256 in the pin is not held against a blob id in the record") {
  const Fetched m;
  m.record("config.json", m.pin.revision, digest::git_blob_id(m.dir.read("config.json")));
  CHECK(m.verify().findings.empty());
  const Report report = m.verify(true);
  CHECK(rules_of(report) == Rules{"weights/identifier-only", "weights/no-record"});
  CHECK((status_of(report, "config.json") == FileStatus::kNotChecked));
}

TEST_CASE("records: malformed ones, links among them, and unfinished downloads are warnings") {
  const Fetched m;
  write_record(m.dir.path(), "config.json", "main\n");
  Report report = m.verify();
  CHECK(report.verified);
  CHECK(rules_of(report) == Rules{"weights/record-malformed"});
  CHECK(contains(messages_of(report), "\"config.json.metadata\""));
  const fs::path records = m.dir / ".cache/huggingface/download";
  fs::remove(records / "config.json.metadata");
  const test::TestDir outside;
  outside.write("r", record_text(kAnotherCommit, "x"));
  fs::create_symlink(outside / "r", records / "config.json.metadata");
  report = m.verify();
  CHECK(rules_of(report) == Rules{"weights/record-malformed"});
  CHECK(!contains(messages_of(report), kAnotherCommit));
  fs::remove(records / "config.json.metadata");
  m.dir.write(".cache/huggingface/download/Ab_c=." + m.sha256("config.json") + ".incomplete", "x");
  m.dir.write(".cache/huggingface/download/Ab_c=." + kCommit + ".incomplete", "x");
  report = m.verify();
  CHECK(report.verified);
  CHECK(rules_of(report) == Rules{"weights/incomplete-download"});
  CHECK(contains(messages_of(report), "2 files left incomplete"));
  CHECK(contains(messages_of(report), "\"config.json\""));
}

TEST_CASE("records only: matching records give identifiers and no verdict, with or without the files") {
  const Fetched m;
  for (const bool with_files : {true, false}) {
    CAPTURE(with_files);
    if (!with_files)
      for (const PinnedFile& file : m.pin.files) fs::remove(m.dir / file.path);
    const Report report = m.verify(true);
    CHECK(!report.verified);
    CHECK(!report.findings.has_errors());
    CHECK(rules_of(report) == Rules{"weights/identifier-only"});
    CHECK(contains(messages_of(report), "6 files: identifier only, bytes not hashed"));
    CHECK(report.bytes == 0);
    REQUIRE(report.files.size() == 6);
    for (const FileReport& file : report.files) {
      CHECK((file.status == FileStatus::kIdentifierOnly));
      CHECK(!file.sha256);
    }
  }
}

TEST_CASE("records only: wrong content is not noticed, and not called verified") {
  const Fetched m;
  m.dir.write("config.json", R"({"architectures":["Tinx"]})");
  const Report report = m.verify(true);
  CHECK(!report.verified);
  CHECK(!report.findings.has_errors());
}

TEST_CASE("records only: another identifier or a malformed record is an error") {
  const Fetched m;
  m.record("config.json", m.pin.revision, std::string(64, '0'));
  Report report = m.verify(true);
  CHECK(report.findings.error_count() == 1);
  CHECK(rules_of(report) == Rules{"weights/identifier-only", "weights/stale-record"});
  CHECK((status_of(report, "config.json") == FileStatus::kNotChecked));
  write_record(m.dir.path(), "config.json", "");
  report = m.verify(true);
  CHECK(report.findings.error_count() == 1);
  CHECK(rules_of(report) == Rules{"weights/identifier-only", "weights/no-record", "weights/record-malformed"});
}

TEST_CASE("records only: a file written after its record is mentioned") {
  const Fetched m;
  write_record(m.dir.path(), "config.json", m.pin.revision + "\n" + m.sha256("config.json") + "\n1000.5\n");
  CHECK(m.verify().findings.empty());
  const Report report = m.verify(true);
  CHECK(rules_of(report) == Rules{"weights/identifier-only", "weights/stale-record"});
  CHECK(contains(messages_of(report), "1 file written after the download record: \"config.json\""));
}

TEST_CASE("records only: the names of a cache's blobs are records, a plain folder has none") {
  const Fetched m;
  const test::TestDir cache;
  make_hub_cache(cache.path(), m.dir.path(), m.pin);
  Report report = verify(cache.path(), m.pin, {.records_only = true});
  CHECK(rules_of(report) == Rules{"weights/identifier-only"});
  CHECK(!report.verified);
  fs::remove_all(m.dir / ".cache");
  report = m.verify(true);
  CHECK(rules_of(report) == Rules{"weights/no-record"});
  CHECK(report.findings.error_count() == 1);
}

}  // namespace sweep::weights
