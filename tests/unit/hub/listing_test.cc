#include "orchestrator/hub/listing.h"

#include <nlohmann/json.hpp>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/hub.h"
#include "orchestrator/diag/rules/weights.h"
#include "orchestrator/digest/sha1.h"
#include "orchestrator/digest/sha256.h"
#include "tests/support/catch.h"
#include "tests/support/test_dir.h"

namespace sweep::hub {

namespace {

using nlohmann::json;

const EntrySource kSource{.name = "reply", .rule = diag::rule::hub_bad_reply};

json small(const std::string& path) {
  return {{"type", "file"}, {"path", path}, {"size", 5}, {"oid", std::string(40, 'a')}};
}
json large(const std::string& path) {
  json entry = small(path);
  entry["lfs"] = {{"oid", std::string(64, 'b')}, {"size", 5}, {"pointerSize", 128}};
  return entry;
}

// The one thing that is wrong with the entry; the entry after it must be read all the same.
diag::Diagnostic problem_of(const json& entry) {
  diag::Diagnostics diagnostics;
  const auto files = parse_entries(json{entry, small("good")}.dump(), kSource, diagnostics);
  INFO(entry.dump());
  REQUIRE(diagnostics.items().size() == 1);
  REQUIRE(files.size() == 1);
  CHECK(files[0].path == "good");
  return diagnostics.items().front();
}

json with(json entry, const std::string& pointer, const json& value) {
  entry[json::json_pointer(pointer)] = value;
  return entry;
}

std::vector<ListedFile> named(const std::vector<std::string>& paths) {
  std::vector<ListedFile> files;
  for (const std::string& path : paths) files.push_back({.path = path, .size = 1, .git_blob = std::string(40, 'a')});
  return files;
}

}  // namespace

TEST_CASE("listing: large files are known by SHA-256, others by git blob, folders are left out") {
  diag::Diagnostics diagnostics;
  json folder = small("dir");
  folder["type"] = "directory";
  const auto files = parse_entries(json{folder, small("dir/a"), large("b")}.dump(), kSource, diagnostics);
  CHECK(diagnostics.empty());
  REQUIRE(files.size() == 2);
  CHECK(files[0].path == "dir/a");
  CHECK(files[0].size == 5);
  CHECK(files[0].git_blob == std::string(40, 'a'));
  CHECK(!files[0].sha256.has_value());
  CHECK(files[1].sha256 == std::string(64, 'b'));
  CHECK(!files[1].git_blob.has_value());
  CHECK(files[1].digest() == std::string(64, 'b'));
}

TEST_CASE("listing: the recorded replies of the hub name the content of the recorded files") {
  const auto data = test::reference_data();
  if (data.empty()) SWEEP_SKIP("no reference data");
  for (const char* reply : {"tree_recursive.json", "paths_info_expand.json"}) {
    CAPTURE(reply);
    diag::Diagnostics diagnostics;
    const auto text = base::read_file(data / "hub" / reply);
    REQUIRE(text.has_value());
    const auto files = parse_entries(*text, kSource, diagnostics);
    CHECK(diagnostics.empty());
    REQUIRE(files.size() >= 2);
    for (const ListedFile& file : files) {
      const auto content = base::read_file(data / "hub" / "tiny-moe" / file.path);
      REQUIRE(content.has_value());
      CHECK(content->size() == file.size);
      CHECK((file.sha256 ? digest::sha256_hex(*content) : digest::git_blob_id(*content)) == file.digest());
    }
  }
}

TEST_CASE("listing: what is no list says what it is") {
  const auto problem = [](std::string_view text) {
    diag::Diagnostics diagnostics;
    CHECK(parse_entries(text, kSource, diagnostics).empty());
    REQUIRE(diagnostics.items().size() == 1);
    CHECK(diagnostics.items()[0].rule == diag::rule::hub_bad_reply);
    return diagnostics.items()[0].message;
  };
  CHECK(contains(problem("<!doctype html><html>login</html>"), "an HTML page"));
  CHECK(contains(problem(""), "empty"));
  CHECK(contains(problem("[{\"type\": \"fi"), "broken JSON"));
  CHECK(contains(problem("Bad gateway"), "not JSON"));
  CHECK(contains(problem("{\"error\": \"x\"}"), "JSON object"));
  CHECK(contains(problem("null"), "JSON null"));
  CHECK(contains(problem(std::string(100'000, '[')), "broken JSON"));
}

TEST_CASE("listing: every field of an entry is checked") {
  CHECK(contains(problem_of("x").message, "entry 1 is no object"));
  for (const char* field : {"type", "path", "size", "oid"}) {
    CAPTURE(field);
    json entry = small("f");
    entry.erase(field);
    CHECK(contains(problem_of(entry).message, std::string("\"") + field + "\""));
    CHECK(problem_of(with(small("f"), std::string("/") + field, json::array())).rule == diag::rule::hub_bad_reply);
  }
  CHECK(contains(problem_of(with(small("f"), "/type", "symlink")).message, "symlink"));
  for (const json& size : {json(-1), json(1.5), json("5"), json(nullptr), json(uint64_t{1} << 60), json(1e300)})
    CHECK(contains(problem_of(with(small("f"), "/size", size)).message, "size"));
  for (const char* oid : {"", "abc", "0123456789ABCDEF0123456789abcdef01234567"})
    CHECK(problem_of(with(small("f"), "/oid", oid)).rule == diag::rule::hub_bad_reply);
  CHECK(contains(problem_of(with(large("f"), "/lfs", "x")).message, "no object"));
  CHECK(contains(problem_of(with(large("f"), "/lfs/oid", std::string(40, 'a'))).message, "SHA-256"));
  CHECK(contains(problem_of(with(large("f"), "/lfs/size", 6)).message, "its lfs.size is 6"));
  CHECK(contains(problem_of(with(small("f"), "/xetHash", std::string(64, 'c'))).message, "no lfs.oid"));
}

TEST_CASE("listing: paths that leave the folder are refused") {
  for (const char* path : {"../f", "/etc/passwd", "a/../../f", "a\\b", "C:x", "a//b", "./a", "a\nb"}) {
    CAPTURE(path);
    CHECK(problem_of(small(path)).rule == diag::rule::weights_path_escape);
  }
}

TEST_CASE("listing: text of the hub cannot move the cursor of a terminal") {
  CHECK(!contains(problem_of(with(small("f"), "/type", "\x1b[2J")).message, "\x1b"));
  CHECK(!contains(problem_of(with(small("f"), "/oid", "\x1b[2J")).message, "\x1b"));
  CHECK(!contains(problem_of(small("a\x1b[2J")).message, "\x1b"));
}

TEST_CASE("listing: names that stand there twice, or differ only in case, are reported") {
  diag::Diagnostics diagnostics;
  auto files = named({"b", "Config.json", "a", "b", "config.json"});
  tidy(files, diagnostics);
  REQUIRE(diagnostics.items().size() == 2);
  CHECK(diagnostics.items()[0].rule == diag::rule::hub_duplicate_path);
  CHECK(diagnostics.items()[1].rule == diag::rule::hub_case_collision);
  CHECK(diagnostics.error_count() == 1);
  REQUIRE(files.size() == 4);
  CHECK(find_file(files, "b") == &files[2]);
  CHECK(find_file(files, "c") == nullptr);
}

TEST_CASE("listing: numbered shards that are not there are found") {
  CHECK(missing_numbers(named({"m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors", "x-1-of-2"})).empty());
  const auto missing = missing_numbers(named({"m-00002-of-00003.safetensors", "n-00001-of-00002.bin"}));
  CHECK(missing == std::vector<std::string>{"m-00001-of-00003.safetensors", "m-00003-of-00003.safetensors",
                                            "n-00002-of-00002.bin"});
  CHECK(missing_numbers(named({"-00001-of-", "00001-of-00002", "a-0000x-of-00002"})).empty());
}

TEST_CASE("listing: a series of names is shortened") {
  CHECK(enumeration(std::vector<std::string>{"a"}) == "\"a\"");
  CHECK(enumeration(std::vector<std::string>{"a", "b"}) == "\"a\" and \"b\"");
  CHECK(enumeration(std::vector<std::string>{"a", "b", "c", "d"}) == "\"a\", \"b\", \"c\" and \"d\"");
  CHECK(enumeration(std::vector<std::string>{"a", "b", "c", "d", "e"}) == "\"a\", \"b\", \"c\" and 2 more");
}

}  // namespace sweep::hub
