#include "orchestrator/weights/layout.h"

#include <unistd.h>

#include "orchestrator/weights/pin_folder.h"
#include "orchestrator/weights/staged_files.h"
#include "orchestrator/weights/verify.h"
#include "tests/support/catch.h"
#include "tests/support/test_dir.h"
#include "tests/support/tiny_model.h"
#include "tests/unit/weights/staging.h"

namespace sweep::weights {

namespace {

namespace fs = std::filesystem;

const std::string kOtherCommit(40, 'a');

// A model in a hub cache, and the pin of its only snapshot.
struct Cached {
  test::TestDir plain;
  test::TestDir cache;
  Pin pin;
  fs::path folder;
  fs::path snapshot;

  Cached() {
    test::write_tiny_model(plain.path());
    plain.write("encoder/config.json", "{}");
    pin = pin_of(plain.path(), "org/tiny");
    folder = make_hub_cache(cache.path(), plain.path(), pin);
    snapshot = snapshot_of(folder, pin);
  }
  // Replaces a link of the snapshot.
  void relink(const std::string& name, const fs::path& target) const {
    fs::remove(snapshot / name);
    fs::create_symlink(target, snapshot / name);
  }
};

Layout layout_of(const fs::path& dir, const Pin& pin) {
  diag::Diagnostics diagnostics;
  const Located located = locate(dir, WantedModel{pin.model, pin.revision}, diagnostics);
  INFO(messages_of(diagnostics));
  CHECK(located.found);
  return located.layout;
}

}  // namespace

TEST_CASE("layout: names are stable") {
  CHECK(layout_name(Layout::kPlain) == "plain");
  CHECK(layout_name(Layout::kHubCache) == "hub-cache");
  CHECK(layout_name(Layout::kLocalDir) == "local-dir");
}

TEST_CASE("layout: a hub cache verifies by its own name, its model's folder, a snapshot, and the client's home") {
  const Cached m;
  const test::TestDir home;
  fs::create_directory(home / "hub");
  make_hub_cache(home / "hub", m.plain.path(), m.pin);
  for (const fs::path& dir : {m.cache.path(), m.folder, m.snapshot, home.path()}) {
    CAPTURE(dir);
    CHECK((layout_of(dir, m.pin) == Layout::kHubCache));
    const Report report = verify(dir, m.pin);
    CHECK(report.verified);
    CHECK(report.findings.empty());
    CHECK(report.files.size() == 7);
  }
}

TEST_CASE("layout: a model's folder under another name is still a hub cache, and links to either are followed") {
  const Cached m;
  const test::TestDir elsewhere;
  fs::create_directory_symlink(m.folder, elsewhere / "link");
  CHECK(verify(elsewhere / "link", m.pin).verified);
  fs::create_directory_symlink(m.snapshot, elsewhere / "snapshot");
  CHECK(verify(elsewhere / "snapshot", m.pin).verified);
  fs::rename(m.folder, elsewhere / "model");
  CHECK((layout_of(elsewhere / "model", m.pin) == Layout::kHubCache));
  CHECK(verify(elsewhere / "model", m.pin).verified);
}

TEST_CASE("layout: plain copies in a snapshot, where links are not possible, verify too") {
  const Cached m;
  for (const PinnedFile& file : m.pin.files) {
    fs::remove(m.snapshot / file.path);
    fs::copy_file(m.plain / file.path, m.snapshot / file.path);
  }
  fs::remove_all(m.folder / "blobs");
  const Report report = verify(m.folder, m.pin);
  CHECK(report.verified);
  CHECK(report.findings.empty());
}

TEST_CASE("layout: the pin's revision selects the snapshot, and a branch that points elsewhere does not matter") {
  const Cached m;
  m.cache.write("models--org--tiny/refs/main", kOtherCommit);
  m.cache.write("models--org--tiny/snapshots/" + kOtherCommit + "/config.json", "{}");
  CHECK(verify(m.cache.path(), m.pin).verified);
  CHECK(verify(m.cache.path(), m.pin).findings.empty());
}

TEST_CASE("layout: a missing snapshot is one finding that says what is there") {
  const Cached m;
  Pin pin = m.pin;
  pin.generator.reset();
  pin.revision = std::string(40, 'b');
  for (const fs::path& dir : {m.cache.path(), m.folder}) {
    const Report report = verify(dir, pin);
    CHECK(!report.verified);
    CHECK(rules_of(report) == Rules{"weights/snapshot-missing"});
    CHECK(report.findings.error_count() == 1);
    CHECK(contains(messages_of(report), pin.revision));
    CHECK(contains(messages_of(report), "it holds " + m.pin.revision));
    CHECK(contains(messages_of(report), "refs/main is at " + m.pin.revision));
    CHECK((status_of(report, "config.json") == FileStatus::kMissing));
  }
  fs::remove_all(m.folder / "snapshots");
  CHECK(contains(messages_of(verify(m.folder, pin)), "it holds no snapshot"));
}

TEST_CASE("layout: a snapshot of another commit is a warning, for only its content counts") {
  const Cached m;
  fs::rename(m.snapshot, m.folder / "snapshots" / kOtherCommit);
  const Report report = verify(m.folder / "snapshots" / kOtherCommit, m.pin);
  CHECK(report.verified);
  CHECK(rules_of(report) == Rules{"weights/mixed-revisions"});
}

TEST_CASE("layout: the cache of another model is named as that") {
  const Cached m;
  Pin pin = m.pin;
  pin.model = "org/other";
  Report report = verify(m.folder, pin);
  CHECK(!report.verified);
  CHECK(rules_of(report) == Rules{"weights/other-model"});
  CHECK(contains(messages_of(report), "models--org--other"));
  CHECK(rules_of(verify(m.snapshot, pin)) == Rules{"weights/other-model"});
  report = verify(m.cache.path(), pin);
  CHECK(rules_of(report) == Rules{"weights/snapshot-missing"});
  CHECK(contains(messages_of(report), "it holds models--org--tiny"));
}

TEST_CASE("layout: links of a snapshot may lead to the model's own blobs only, even if the content is right") {
  const Cached m;
  const test::TestDir outside;
  fs::copy_file(m.plain / "config.json", outside / "config.json");
  const fs::path other_model = m.cache.path() / "models--org--else" / "blobs";
  fs::create_directories(other_model);
  fs::copy_file(m.plain / "config.json", other_model / "b");
  fs::copy_file(m.plain / "config.json", m.snapshot / "copy.txt");
  for (const fs::path& target : {outside / "config.json", other_model / "b", fs::path("copy.txt")}) {
    CAPTURE(target);
    m.relink("config.json", target);
    const Report report = verify(m.cache.path(), m.pin);
    CHECK(!report.verified);
    CHECK(rules_of(report).count("weights/path-escape") == 1);
    CHECK((status_of(report, "config.json") == FileStatus::kUnreadable));
    CHECK(rules_of(report).count("weights/missing-file") == 0);
  }
  // A blob that is itself a link.
  const fs::path blob = m.folder / "blobs" / *m.pin.files[0].sha256;
  REQUIRE(m.pin.files[0].path == "config.json");
  m.relink("config.json", "../../blobs/" + *m.pin.files[0].sha256);
  fs::remove(blob);
  fs::create_symlink(outside / "config.json", blob);
  CHECK(rules_of(verify(m.cache.path(), m.pin)).count("weights/path-escape") == 1);
}

TEST_CASE("layout: a cache whose folders are links is refused as a whole") {
  const Cached m;
  const test::TestDir outside;
  for (const char* part : {"blobs", "snapshots"}) {
    fs::rename(m.folder / part, outside / part);
    fs::create_directory_symlink(outside / part, m.folder / part);
    const Report report = verify(m.folder, m.pin);
    CAPTURE(part);
    CHECK(!report.verified);
    CHECK(!rules_of(report).empty());
    fs::remove(m.folder / part);
    fs::rename(outside / part, m.folder / part);
  }
  fs::rename(m.snapshot, outside / "s");
  fs::create_directory_symlink(outside / "s", m.snapshot);
  CHECK(rules_of(verify(m.folder, m.pin)) == Rules{"weights/path-escape"});
  fs::remove(m.snapshot);
  fs::rename(outside / "s", m.snapshot);
  fs::rename(m.folder, outside / "model");
  fs::create_directory_symlink(outside / "model", m.folder);
  CHECK(rules_of(verify(m.cache.path(), m.pin)) == Rules{"weights/path-escape"});
}

TEST_CASE("layout: a blob under another name than its content's is a warning") {
  const Cached m;
  const std::string right = *m.pin.files[0].sha256;
  const std::string wrong(64, '0');
  fs::rename(m.folder / "blobs" / right, m.folder / "blobs" / wrong);
  m.relink("config.json", "../../blobs/" + wrong);
  Report report = verify(m.folder, m.pin);
  CHECK(report.verified);
  CHECK(rules_of(report) == Rules{"weights/stale-record"});
  CHECK(contains(messages_of(report), wrong));
  // The right name does not help wrong content.
  fs::rename(m.folder / "blobs" / wrong, m.folder / "blobs" / right);
  m.relink("config.json", "../../blobs/" + right);
  m.cache.write("models--org--tiny/blobs/" + right, R"({"architectures":["Tinx"]})");
  CHECK(rules_of(verify(m.folder, m.pin)) == Rules{"weights/hash-mismatch"});
}

TEST_CASE("layout: what a broken download left of a pinned file is mentioned, of others not") {
  const Cached m;
  m.cache.write("models--org--tiny/blobs/" + std::string(64, 'c') + ".incomplete", "x");
  CHECK(verify(m.folder, m.pin).findings.empty());
  const std::string blob = *m.pin.files[0].sha256;
  m.cache.write("models--org--tiny/blobs/" + blob + ".incomplete", "x");
  Report report = verify(m.folder, m.pin);
  CHECK(report.verified);
  CHECK(rules_of(report) == Rules{"weights/incomplete-download"});
  CHECK(contains(messages_of(report), "\"config.json\""));
  fs::remove(m.folder / "blobs" / blob);
  report = verify(m.folder, m.pin);
  CHECK(rules_of(report) == Rules{"weights/incomplete-download", "weights/unreadable"});
  CHECK(contains(messages_of(report), "leads nowhere"));
}

TEST_CASE("layout: a pin can be made from a cache that leaves no choice") {
  const Cached m;
  diag::Diagnostics refused;
  for (const fs::path& dir : {m.cache.path(), m.folder, m.snapshot}) CHECK(pin_of(dir, "org/tiny") == m.pin);
  fs::create_directory(m.folder / "snapshots" / kOtherCommit);
  CHECK(!pin_from_dir(m.folder, {.model = "x", .revision = {}, .generator = {}}, {}, refused));
  CHECK(pin_of(m.snapshot, "org/tiny") == m.pin);
  fs::create_directory(m.cache / "models--a--b");
  CHECK(!pin_from_dir(m.cache.path(), {.model = "x", .revision = {}, .generator = {}}, {}, refused));
}

TEST_CASE("layout: a folder with files of its own is no cache, whatever else lies in it") {
  const Cached m;
  fs::create_directory(m.plain / "models--org--x");
  fs::create_directories(m.plain / "hub" / "models--org--x");
  CHECK((layout_of(m.plain.path(), m.pin) == Layout::kPlain));
  make_local_dir(m.plain.path(), m.pin);
  CHECK((layout_of(m.plain.path(), m.pin) == Layout::kLocalDir));
  CHECK(verify(m.plain.path(), m.pin).verified);
}

TEST_CASE("layout: a folder without anything pinned is one finding, and nothing in it is hashed") {
  const test::TestDir dir;
  test::write_tiny_model(dir.path());
  const Pin pin = pin_of(dir.path(), "org/tiny");
  const test::TestDir other;
  other.write("model.bin", std::string(100, 'x'));
  const Report report = verify(other.path(), pin);
  CHECK(!report.verified);
  CHECK(report.bytes == 0);
  CHECK(rules_of(report) == Rules{"weights/missing-file"});
  CHECK(report.findings.error_count() == 1);
  CHECK(contains(messages_of(report), "none of the 6 pinned files is in"));
  CHECK(report.files.size() == 6);
  fs::create_symlink("nowhere", other / "broken");
  CHECK(verify(other.path(), pin).bytes == 0);
  fs::create_symlink("nowhere", other / "config.json");
  CHECK(verify(other.path(), pin).findings.error_count() > 2);
}

TEST_CASE("layout: links to folders are reported, and what hides behind them is unreadable and not missing") {
  const test::TestDir dir;
  test::write_tiny_model(dir.path());
  dir.write("encoder/config.json", "{}");
  const Pin pin = pin_of(dir.path(), "org/tiny");
  fs::rename(dir / "encoder", dir / "other");
  fs::create_directory_symlink("other", dir / "encoder");
  Report report = verify(dir.path(), pin);
  CHECK(rules_of(report) == Rules{"weights/linked-folder", "weights/extra-file"});
  CHECK((status_of(report, "encoder/config.json") == FileStatus::kUnreadable));
  const test::TestDir outside;
  fs::remove(dir / "encoder");
  fs::rename(dir / "other", outside / "encoder");
  fs::create_directory_symlink(outside / "encoder", dir / "encoder");
  CHECK(rules_of(verify(dir.path(), pin)) == Rules{"weights/path-escape"});
}

TEST_CASE("layout: a folder in place of a file is named as that") {
  const test::TestDir dir;
  test::write_tiny_model(dir.path());
  const Pin pin = pin_of(dir.path(), "org/tiny");
  fs::remove(dir / "config.json");
  fs::create_directory(dir / "config.json");
  const Report report = verify(dir.path(), pin);
  CHECK(rules_of(report) == Rules{"weights/missing-file"});
  CHECK(contains(messages_of(report), "\"config.json\" is pinned and is a folder"));
}

TEST_CASE("layout: a folder that cannot be listed is reported, and the rest is verified") {
  if (::geteuid() == 0) SWEEP_SKIP("root may read everything");
  const test::TestDir dir;
  test::write_tiny_model(dir.path());
  dir.write("a/config.json", "{}");
  const Pin pin = pin_of(dir.path(), "org/tiny");
  fs::permissions(dir / "a", fs::perms::none);
  const Report report = verify(dir.path(), pin);
  CHECK(rules_of(report) == Rules{"weights/unreadable"});
  CHECK((status_of(report, "a/config.json") == FileStatus::kUnreadable));
  CHECK((status_of(report, "config.json") == FileStatus::kOk));
  fs::permissions(dir / "a", fs::perms::owner_all);
}

TEST_CASE("layout: only the client's records and git's folder are no part of a model") {
  const test::TestDir dir;
  test::write_tiny_model(dir.path());
  const Pin pin = pin_of(dir.path(), "org/tiny");
  dir.write(".git/config.json", "{}");
  dir.write(".cache/huggingface/.gitignore", "*");
  dir.write(".cache/huggingface/download/config.json.lock", "");
  CHECK(verify(dir.path(), pin).findings.empty());
  dir.write(".gitattributes", "*.safetensors filter=lfs");
  Report report = verify(dir.path(), pin);
  CHECK(report.verified);
  CHECK(report.findings.warning_count() == 1);
  CHECK(pin_of(dir.path(), "org/tiny").files.front().path == ".gitattributes");
  dir.write(".cache/other/model.safetensors", test::safetensors("{}", ""));
  report = verify(dir.path(), pin);
  CHECK(!report.verified);
  CHECK((status_of(report, ".cache/other/model.safetensors") == FileStatus::kExtra));
}

}  // namespace sweep::weights
