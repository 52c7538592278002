#include "orchestrator/yaml/plain_reader.h"

#include <filesystem>
#include <string>

#include "orchestrator/base/file.h"
#include "orchestrator/yaml/library_reader.h"
#include "orchestrator/yaml/prescan.h"
#include "tests/support/catch.h"
#include "tests/support/same_tree.h"
#include "tests/support/test_dir.h"

using namespace sweep;

namespace fs = std::filesystem;

namespace {

// What the library makes of a text that it must accept without a word.
yaml::Node through_library(const std::string& text) {
  const yaml::Document document("x.yaml", text);
  diag::Diagnostics out;
  const auto node = yaml::read_with_library(document, text, {}, out);
  REQUIRE(node);
  REQUIRE(out.empty());
  return *node;
}

struct Compared {
  size_t read = 0;
  size_t left_to_library = 0;
};

void compare_files(const fs::path& folder, Compared& counts) {
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file() || entry.path().extension() != ".yaml") continue;
    INFO(entry.path());
    const auto text = base::read_file(entry.path());
    REQUIRE(text);
    diag::Diagnostics out;
    const auto readable = yaml::prescan(yaml::Document("x.yaml", *text), out);
    if (!readable) continue;
    const auto plain = yaml::read_plain(*readable, {});
    ++(plain ? counts.read : counts.left_to_library);
    if (plain) CHECK(test::first_difference(*plain, through_library(*readable)) == "");
  }
}

}  // namespace

TEST_CASE("plain reader: what it reads is what the library reads") {
  for (const char* text : {"a: 1\n",
                           "a: 1",
                           "a:\n",
                           "a:\nb: 2\n",
                           "a: ~\nb: null\nc: Null # x\n",
                           "- a\n- b\n",
                           "  a: 1\n  b: 2\n",
                           "a:\n- 1\n- 2\nb: 3\n",
                           "a:\n  - 1\n  -   b: 2\n      c: 3\n  - d\n",
                           "- - a\n  - b\n- c\n",
                           "-\n  a: 1\n-\n  - 2\n",
                           "a: [1, 2,3]\nb: { c: d, e: [ ~ , null ] }\nc: []\nd: {}\n",
                           "a: [1,\n  2,\n\n  3 ]\n",
                           "- { a: 1 } # why\n",
                           "a: 'it''s'\nb: \"x: y # z\"\n\"c d\": 'e'\n",
                           "# first\n\n  # second\na: b # c\n\n#last\n",
                           "a: b#c\nd: e:f\ng: http://x/y\n",
                           "a:   b c   d   \n",
                           "key with blanks : v\n",
                           "a: -1\nb: --flag\nc: -x\n",
                           "a: \xC3\xA9\n\xC3\xA9: \xF0\x9F\x98\x80\n",
                           "a: {x: cluster:b300, y: 12:30}\n",
                           "a: [-1, a b, 'c, d']\n",
                           "a:\n    b:\n  \n      - c:\n\n    d: 1\n",
                           "a: <b\nb: =\nc: $x\nd: (y)\n",
                           "a: \"\"\nb: ''\n",
                           "\"\": 1\n",
                           "a:\n  b c\nd:\n  - e\n  -\n    'f'\ng:\n  [1, 2]\n",
                           "a: \"b \\\"c\\\" \\\\\"\n"}) {
    INFO(text);
    const auto plain = yaml::read_plain(text, {});
    REQUIRE(plain);
    CHECK(test::first_difference(*plain, through_library(text)) == "");
  }
}

TEST_CASE("plain reader: what lies beyond the subset or is wrong is left to the library") {
  for (const char* text : {"",
                           "\n",
                           "# only a comment\n",
                           "word\n",
                           "'quoted'\n",
                           "[1, 2]\n",
                           "---\na: 1\n",
                           "a: 1\n---\nb: 2\n",
                           "a: 1\n...\n",
                           "%YAML 1.2\n",
                           "a: &x 1\n",
                           "a: *x\n",
                           "a: !!int 1\n",
                           "a: !x 1\n",
                           "<<: { a: 1 }\n",
                           "a: |\n  b\n",
                           "a: >\n  b\n",
                           "a: b\n  c\n",
                           "a: 'b\n  c'\n",
                           "a: \"b\\n\"\n",
                           "? a\n: b\n",
                           "a: 1\na: 2\n",
                           "a: { b: 1, b: 2 }\n",
                           "a: @b\n",
                           "a: `b`\n",
                           "a: %b\n",
                           "a: b: c\n",
                           "a: 'b' c\n",
                           "a: [1, 2\n",
                           "a: { b: 1\n",
                           "a: [1, 2] 3\n",
                           "a: [1,, 2]\n",
                           "a: [1, 2, ]\n",
                           "a: { b: , c: 1 }\n",
                           "a: { b }\n",
                           "a: [b: 1]\n",
                           "a: - b\n",
                           "- a\nb: 1\n",
                           "a: 1\n- b\n",
                           "a: 1\n  b: 2\n",
                           "a:\n    b: 1\n  c: 2\n",
                           "  a: 1\nb: 2\n",
                           "-\n- a\n",
                           "-\n",
                           "- a\n  - b\n",
                           "~: 1\n",
                           "null: 1\n",
                           "a: [b # c\n  ]\n",
                           "a: [b\n  c]\n",
                           "a: {b\n  : c}\n",
                           "a:b\n",
                           "a\n: b\n",
                           "a: ]\n",
                           "a: ,b\n",
                           "a: 'b\n",
                           "a: [a?b]\n",
                           "a:\n  b\n  c\n",
                           "a:\n  ~\n",
                           "- a\n-\n  b\n  c\n",
                           "a: \"\\\n b\"\n"}) {
    INFO(text);
    CHECK(!yaml::read_plain(text, {}));
  }
}

TEST_CASE("plain reader: the limits of nodes and depth are left to the library") {
  const std::string lists = "a: [[[1]]]\n";
  CHECK(yaml::read_plain(lists, {.depth = 4}));
  CHECK(!yaml::read_plain(lists, {.depth = 3}));
  CHECK(yaml::read_plain(lists, {.nodes = 6}));
  CHECK(!yaml::read_plain(lists, {.nodes = 5}));
  CHECK(!yaml::read_plain("a: " + std::string(200'000, '['), {}));
}

TEST_CASE("plain reader: a key longer than the library takes is left to it") {
  CHECK(yaml::read_plain(std::string(1000, 'k') + ": 1\n", {}));
  CHECK(!yaml::read_plain(std::string(1100, 'k') + ": 1\n", {}));
}

TEST_CASE("plain reader: all files of this project are read alike") {
  Compared counts;
  for (const char* folder : {"matrix", "recipes", "changelog", "tests/golden"})
    compare_files(fs::path(SWEEPCTL_SOURCE_DIR) / folder, counts);
  CHECK(counts.read > counts.left_to_library);
}

TEST_CASE("plain reader: the peer's files are read alike, its master files without the library") {
  const fs::path data = test::reference_data();
  if (data.empty()) SWEEP_SKIP("no reference data");
  Compared counts;
  compare_files(data / "inferencex", counts);
  CHECK(counts.read > 0);
  Compared masters;
  compare_files(data / "inferencex" / "configs", masters);
  CHECK(masters.left_to_library == 0);
}
