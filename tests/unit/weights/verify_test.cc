#include "orchestrator/weights/verify.h"
#include "orchestrator/weights/pin_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "orchestrator/digest/sha1.h"
#include "orchestrator/digest/sha256.h"
#include "tests/support/catch.h"
#include "tests/support/test_dir.h"
#include "tests/support/tiny_model.h"
#include "tests/unit/weights/staging.h"

namespace sweep::weights {

namespace {

// A model in a folder of its own and the pin made from it.
struct Staged {
  test::TestDir dir;
  Pin pin;

  Staged() {
    test::write_tiny_model(dir.path());
    diag::Diagnostics findings;
    auto made =
        pin_from_dir(dir.path(), {.model = "tiny", .revision = std::nullopt, .generator = "test"}, {}, findings);
    REQUIRE(made.has_value());
    pin = std::move(*made);
  }
  std::string shard(int number) const { return test::shard_name(number, 3); }
  Report verify(const VerifyOptions& options = {}) const { return weights::verify(dir.path(), pin, options); }
};

}  // namespace

TEST_CASE("verify: an untouched folder is verified, with every file's identity") {
  const Staged m;
  HashProgress last;
  const Report report = m.verify({.threads = 2,
                                  .expected_model = "tiny",
                                  .expected_revision = m.pin.revision,
                                  .progress = [&](const HashProgress& p) { last = p; }});
  CHECK(report.verified);
  CHECK(report.findings.empty());
  CHECK(report.model == "tiny");
  CHECK(report.revision == m.pin.revision);
  REQUIRE(report.files.size() == 6);
  uint64_t bytes = 0;
  for (size_t i = 0; i < 6; ++i) {
    CHECK((report.files[i].status == FileStatus::kOk));
    CHECK(report.files[i].sha256 == m.pin.files[i].sha256);
    bytes += *report.files[i].size;
  }
  CHECK(report.bytes == bytes);
  CHECK(last.bytes == bytes);
}

TEST_CASE("verify: one flipped byte is found, with both digests") {
  const Staged m;
  std::string content = m.dir.read(m.shard(2));
  const std::string expected = digest::sha256_hex(content);
  content.back() = static_cast<char>(content.back() ^ 1);
  m.dir.write(m.shard(2), content);
  const Report report = m.verify();
  CHECK(!report.verified);
  CHECK(rules_of(report) == Rules{"weights/hash-mismatch"});
  CHECK((status_of(report, m.shard(2)) == FileStatus::kHashMismatch));
  CHECK(contains(messages_of(report), expected));
  CHECK(contains(messages_of(report), digest::sha256_hex(content)));
}

TEST_CASE("verify: a missing shard is one finding, though pin and index both name it") {
  const Staged m;
  std::filesystem::remove(m.dir / m.shard(3));
  const Report report = m.verify();
  CHECK(!report.verified);
  CHECK(rules_of(report) == Rules{"weights/missing-file"});
  CHECK((status_of(report, m.shard(3)) == FileStatus::kMissing));
  CHECK((status_of(report, m.shard(1)) == FileStatus::kOk));
}

TEST_CASE("verify: a cut shard differs in size, content and header, all in one report") {
  const Staged m;
  m.dir.write(m.shard(1), m.dir.read(m.shard(1)).substr(0, 200));
  const Report report = m.verify();
  CHECK(rules_of(report) == Rules{"weights/size-mismatch", "weights/header-malformed"});
  CHECK(contains(messages_of(report), "has 200 bytes, expected "));
  CHECK(contains(messages_of(report), "; SHA-256 "));
  CHECK((status_of(report, m.shard(1)) == FileStatus::kSizeMismatch));
}

TEST_CASE("verify: two shards in each other's place are found by content and by index") {
  const Staged m;
  const std::string first = m.dir.read(m.shard(1));
  m.dir.write(m.shard(1), m.dir.read(m.shard(2)));
  m.dir.write(m.shard(2), first);
  CHECK(rules_of(m.verify()) == Rules{"weights/hash-mismatch", "weights/tensor-mismatch"});
}

TEST_CASE("verify: extra files are errors if an engine would load them, else warnings") {
  const Staged m;
  m.dir.write("notes.md", "x");
  Report report = m.verify();
  CHECK(report.verified);
  CHECK(rules_of(report) == Rules{"weights/extra-file"});
  CHECK(report.findings.warning_count() == 1);
  CHECK((status_of(report, "notes.md") == FileStatus::kExtra));
  for (int i = 0; i < 10; ++i) m.dir.write("notes-" + std::to_string(i), "x");
  report = m.verify();
  CHECK(report.verified);
  CHECK(report.findings.warning_count() == 1);
  CHECK(contains(messages_of(report), "11 files that no engine loads are not in the pin: \"notes-0\", \"notes-1\""));
  CHECK(contains(messages_of(report), " and 6 more"));
  m.dir.write("sub/model.safetensors", test::safetensors("{}", ""));
  report = m.verify();
  CHECK(!report.verified);
  CHECK(report.findings.error_count() == 1);
}

TEST_CASE("verify: download records are no part of the model") {
  const Staged m;
  m.dir.write(".cache/huggingface/download/x.lock", "x");
  m.dir.write(".git/config", "x");
  CHECK(m.verify().verified);
  CHECK(m.verify().findings.empty());
}

TEST_CASE("verify: a web page in place of a shard is named as what it is") {
  const Staged m;
  m.dir.write(m.shard(1), "<!DOCTYPE html><html>sign in</html>");
  const Report report = m.verify();
  CHECK(rules_of(report) == Rules{"weights/size-mismatch", "weights/wrong-content"});
  CHECK(contains(messages_of(report), "an HTML page"));
  m.dir.write(m.shard(1), "");
  m.dir.write("tokenizer.json", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n");
  CHECK(rules_of(m.verify()) == Rules{"weights/size-mismatch", "weights/wrong-content"});
  CHECK(contains(messages_of(m.verify()), "\"tokenizer.json\" holds a git-LFS pointer"));
  CHECK(contains(messages_of(m.verify()), "\"model-00001-of-00003.safetensors\" holds nothing"));
}

TEST_CASE("verify: links inside the folder are followed, links that leave it are refused") {
  const Staged m;
  std::filesystem::create_directory(m.dir / "blobs");
  std::filesystem::rename(m.dir / m.shard(1), m.dir / "blobs" / "b1");
  std::filesystem::create_symlink("blobs/b1", m.dir / m.shard(1));
  Report report = m.verify();
  CHECK((status_of(report, m.shard(1)) == FileStatus::kOk));

  const test::TestDir outside;
  std::filesystem::rename(m.dir / "blobs" / "b1", outside / "b1");
  std::filesystem::remove(m.dir / m.shard(1));
  std::filesystem::create_symlink(outside / "b1", m.dir / m.shard(1));
  report = m.verify();
  CHECK(!report.verified);
  CHECK(rules_of(report) == Rules{"weights/path-escape"});
}

TEST_CASE("verify: a link in a circle, a FIFO and a linked folder do no harm") {
  const Staged m;
  std::filesystem::create_symlink("loop", m.dir / "loop");
  std::filesystem::create_symlink(".", m.dir / "self");
  REQUIRE(::mkfifo((m.dir / "fifo").c_str(), 0600) == 0);
  const Report report = m.verify();
  CHECK(!report.verified);
  CHECK(rules_of(report) == Rules{"weights/linked-folder", "weights/unreadable"});
  CHECK(report.findings.error_count() == 3);
  std::filesystem::remove(m.dir / m.shard(1));
  REQUIRE(::mkfifo((m.dir / m.shard(1)).c_str(), 0600) == 0);
  CHECK((status_of(m.verify(), m.shard(1)) == FileStatus::kUnreadable));
  CHECK(contains(messages_of(m.verify()), "is a named pipe"));
}

TEST_CASE("verify: a file without permission is unreadable") {
  if (::geteuid() == 0) SWEEP_SKIP("root may read everything");
  const Staged m;
  std::filesystem::permissions(m.dir / "config.json", std::filesystem::perms::none);
  const Report report = m.verify();
  CHECK(rules_of(report) == Rules{"weights/unreadable"});
  CHECK((status_of(report, "config.json") == FileStatus::kUnreadable));
}

TEST_CASE("verify: a pin for another model or revision, and a generated revision that does not follow, are found") {
  Staged m;
  Report report = m.verify({.expected_model = "other", .expected_revision = std::string(40, '0')});
  CHECK(rules_of(report) == Rules{"weights/revision-mismatch"});
  CHECK(report.findings.error_count() == 2);
  m.pin.revision = std::string(40, '1');
  CHECK(rules_of(m.verify()) == Rules{"weights/revision-mismatch"});
  m.pin.generator.reset();  // a hub's revision is not made from the content
  CHECK(m.verify().verified);
}

TEST_CASE("verify: the report says where, by which pin, and what was expected instead of what was found") {
  Staged m;
  Report report = m.verify();
  CHECK_FALSE(report.host.empty());
  CHECK(report.layout == "plain");
  CHECK(report.pin_sha256 == pin_digest(m.pin));
  for (const FileReport& file : report.files) {
    CHECK((file.proof == Proof::kHashed));
    CHECK_FALSE((file.expected_size || file.expected_sha256 || file.expected_git_blob));
  }
  const PinnedFile changed = m.pin.files[0];
  const PinnedFile removed = m.pin.files[1];
  m.dir.write(changed.path, "something else");
  std::filesystem::remove(m.dir / removed.path);
  report = m.verify();
  for (const FileReport& file : report.files) {
    CAPTURE(file.path);
    const bool is_changed = file.path == changed.path;
    const bool is_removed = file.path == removed.path;
    CHECK((file.expected_sha256 == (is_changed ? changed.sha256 : is_removed ? removed.sha256 : std::nullopt)));
    CHECK((file.expected_size == (is_changed ? changed.size : is_removed ? removed.size : std::nullopt)));
    CHECK((file.proof == (is_removed ? Proof::kNone : Proof::kHashed)));
  }
}

TEST_CASE("verify: what the pin does not identify is not verified") {
  Staged m;
  m.pin.generator.reset();
  m.pin.files[0].sha256.reset();
  Report report = m.verify();
  CHECK(!report.verified);
  CHECK(rules_of(report) == Rules{"weights/pin-incomplete"});
  CHECK((status_of(report, m.pin.files[0].path) == FileStatus::kNotPinned));
  m.pin.files[0].git_blob = digest::git_blob_id(m.dir.read(m.pin.files[0].path));
  CHECK(m.verify().verified);
  m.pin.files[0].git_blob = std::string(40, '0');
  CHECK(rules_of(m.verify()) == Rules{"weights/hash-mismatch"});
  m.pin.files[0].git_blob.reset();
  m.pin.files[0].sha256 = digest::sha256_hex(m.dir.read(m.pin.files[0].path));
  m.pin.complete = false;
  CHECK(rules_of(m.verify()) == Rules{"weights/pin-incomplete"});
  const Pin empty{
      .model = "m", .revision = std::string(40, 'a'), .complete = true, .files = {}, .index = {}, .generator = {}};
  const test::TestDir nothing;
  CHECK(!verify(nothing.path(), empty).verified);
}

TEST_CASE("verify: index, shards and pin must agree on tensors and totals") {
  Staged m;
  auto index = nlohmann::json::parse(m.dir.read(std::string(kIndexName)));
  const auto original = index;
  const auto findings_with = [&](const nlohmann::json& changed) {
    m.dir.write(kIndexName, changed.dump());
    Rules rules = rules_of(m.verify());
    rules.erase("weights/hash-mismatch");
    rules.erase("weights/size-mismatch");
    return rules;
  };
  index["weight_map"]["ghost"] = m.shard(1);
  CHECK(findings_with(index) == Rules{"weights/tensor-mismatch"});
  CHECK(contains(messages_of(m.verify()), "1 tensor of the index not in it: \"ghost\"\n"));
  for (const char* renamed : {"a", "layers.1.w00", "z"}) {
    index = original;
    index["weight_map"].erase("layers.1.w0");
    index["weight_map"][renamed] = m.shard(1);
    CHECK(findings_with(index) == Rules{"weights/tensor-mismatch"});
    CHECK(contains(messages_of(m.verify()), std::string("1 tensor of the index not in it: \"") + renamed +
                                                "\"; 1 tensor not placed in it by the index: \"layers.1.w0\"\n"));
  }
  index = original;
  index["weight_map"].erase("layers.1.w0");
  CHECK(findings_with(index) == Rules{"weights/tensor-mismatch"});
  index = original;
  index["weight_map"]["layers.1.w0"] = "absent.safetensors";
  CHECK(findings_with(index) == Rules{"weights/tensor-mismatch", "weights/index-names-missing-shard"});
  index = original;
  index["weight_map"]["layers.1.w0"] = "../" + m.shard(1);
  CHECK(findings_with(index).count("weights/path-escape") == 1);
  index = original;
  index["metadata"]["total_size"] = 1;
  m.pin.index->total_size = 1;
  CHECK(findings_with(index) == Rules{"weights/index-total"});
  m.pin.index->total_size = original["metadata"]["total_size"];
  CHECK(findings_with(index) == Rules{"weights/index-total", "weights/tensor-mismatch"});
  CHECK(findings_with("text") == Rules{"weights/index-malformed"});
  m.dir.write(kIndexName, original.dump(2));
  CHECK(m.verify().verified);
  m.pin.index->tensor_count = 7;
  CHECK(rules_of(m.verify()) == Rules{"weights/tensor-mismatch"});
}

TEST_CASE("verify: an index in a folder is held against the shards beside it, other indexes are only hashed") {
  const test::TestDir dir;
  for (const char* folder : {"", "encoder"}) {
    std::filesystem::create_directories(dir / folder);
    test::write_tiny_model(dir / folder);
  }
  dir.write("pytorch_model.bin.index.json", R"({"weight_map":{"a":"pytorch_model-00001-of-00002.bin"}})");
  Pin pin = pin_of(dir.path(), "tiny");
  CHECK(verify(dir.path(), pin).findings.empty());
  const std::string name = "encoder/model.safetensors.index.json";
  auto index = nlohmann::json::parse(dir.read(name));
  index["weight_map"].erase("layers.1.w0");
  index["weight_map"]["ghost"] = "absent.safetensors";
  dir.write(name, index.dump());
  pin.generator.reset();
  for (PinnedFile& file : pin.files)
    if (file.path == name) file = {name, index.dump().size(), digest::sha256_hex(index.dump()), {}};
  const Report report = verify(dir.path(), pin);
  CHECK(rules_of(report) == Rules{"weights/index-names-missing-shard", "weights/tensor-mismatch"});
  CHECK(contains(messages_of(report), "\"encoder/absent.safetensors\""));
  CHECK(contains(messages_of(report), "\"encoder/model-00001-of-00003.safetensors\": 1 tensor not placed in it"));
}

TEST_CASE("verify: gaps in the numbers of shards, and pinned shards that the index does not know, are warnings") {
  const Staged m;
  auto index = nlohmann::json::parse(m.dir.read(std::string(kIndexName)));
  for (const char* tensor : {"layers.2.w0", "layers.2.w1"}) index["weight_map"].erase(tensor);
  index["metadata"]["total_size"] = index["metadata"]["total_size"].get<int>() / 3 * 2;
  m.dir.write(kIndexName, index.dump());
  m.dir.write("model.safetensors", test::safetensors("{}", ""));
  m.dir.write("other.safetensors", test::safetensors("{}", ""));
  const Report report = verify(m.dir.path(), pin_of(m.dir.path(), "tiny"));
  CHECK(report.verified);
  CHECK(rules_of(report) == Rules{"weights/shard-numbering", "weights/unindexed-shard"});
  CHECK(report.findings.warning_count() == 3);
  CHECK(contains(messages_of(report), "number 2 of 3 is not among them"));
  CHECK(contains(messages_of(report), "\"model.safetensors\" is pinned, and"));
  CHECK(contains(messages_of(report), "\"model-00002-of-00003.safetensors\" is pinned, and"));
}

TEST_CASE("verify: a file name that is not UTF-8 is an extra file, and the report stays writable as JSON") {
  const Staged m;
  m.dir.write("bad\xff.json", "{}");
  const Report report = m.verify();
  CHECK(rules_of(report) == Rules{"weights/extra-file"});
  CHECK(contains(to_json(report).dump(), "bad\xEF\xBF\xBD.json"));
}

TEST_CASE("verify: no folder is one clear finding") {
  const Staged m;
  const Report report = verify(m.dir / "absent", m.pin);
  CHECK(!report.verified);
  CHECK(rules_of(report) == Rules{"weights/unreadable"});
}

TEST_CASE("verify: names that differ in case only are errors, unless both are pinned") {
  Staged m;
  m.dir.write("Config.json", m.dir.read("config.json"));
  Report report = m.verify();
  CHECK(!report.verified);
  CHECK(rules_of(report) == Rules{"weights/case-collision", "weights/extra-file"});
  CHECK(contains(messages_of(report), "\"Config.json\" and \"config.json\" differ in case only"));
  m.pin = pin_of(m.dir.path(), "tiny");
  report = m.verify();
  CHECK(report.verified);
  CHECK(rules_of(report) == Rules{"weights/case-collision"});
  std::filesystem::remove(m.dir / "config.json");
  m.pin.files.erase(m.pin.files.begin());  // Config.json
  m.pin.generator.reset();
  CHECK(rules_of(m.verify()) == Rules{"weights/case-collision", "weights/extra-file", "weights/missing-file"});
}

TEST_CASE("verify: a stop request gives a report that is not verified") {
  const Staged m;
  std::stop_source stop;
  stop.request_stop();
  const Report report = verify(m.dir.path(), m.pin, {}, stop.get_token());
  CHECK(!report.verified);
  CHECK(report.cancelled);
  CHECK(rules_of(report) == Rules{"weights/not-checked"});
  CHECK((report.files[0].status == FileStatus::kNotChecked));
}

TEST_CASE("verify: the same folder gives the same findings in the same order for any number of threads") {
  const Staged m;
  m.dir.write(m.shard(1), "x");
  m.dir.write("a.json", "{}");
  std::filesystem::remove(m.dir / "config.json");
  const auto findings = [&](unsigned threads) {
    auto json = to_json(m.verify({.threads = threads}));
    json.erase("seconds");
    return json;
  };
  const auto once = findings(1);
  CHECK(once["errors"].get<int>() == 4);
  for (int i = 0; i < 5; ++i) CHECK(findings(4) == once);
}

}  // namespace sweep::weights
