#include "orchestrator/weights/pin_folder.h"

#include <filesystem>

#include "orchestrator/diag/rules/weights.h"
#include "orchestrator/digest/sha256.h"
#include "tests/support/catch.h"
#include "tests/support/test_dir.h"
#include "tests/support/tiny_model.h"

namespace sweep::weights {

namespace {

using RuleIds = std::vector<diag::RuleId>;

const PinSource kSource{.model = "tiny", .revision = {}, .generator = "tool 1"};

// The rules of what was reported instead of a pin.
RuleIds refusals(const std::filesystem::path& dir, const PinSource& source = kSource,
                 const std::stop_token& stop = {}) {
  diag::Diagnostics diagnostics;
  CHECK(!pin_from_dir(dir, source, {}, diagnostics, stop));
  RuleIds rules;
  for (const auto& diagnostic : diagnostics.items()) rules.push_back(diagnostic.rule);
  return rules;
}

}  // namespace

TEST_CASE("pin from a folder: lists every file with its size and content, and the totals of the index") {
  const test::TestDir dir;
  test::write_tiny_model(dir.path());
  dir.write(".cache/huggingface/download/config.json.metadata", "x");
  diag::Diagnostics diagnostics;
  HashProgress last;
  const auto pin = pin_from_dir(dir.path(), kSource,
                                {.threads = 2, .progress = [&](const HashProgress& now) { last = now; }}, diagnostics);
  REQUIRE(pin.has_value());
  CHECK(pin->complete);
  CHECK(pin->model == "tiny");
  CHECK(*pin->generator == "tool 1");
  CHECK(pin->files.size() == 6);
  CHECK(pin->files[0].path == "config.json");
  CHECK(*pin->files[0].size == 26);
  CHECK(*pin->files[0].sha256 == digest::sha256_hex(R"({"architectures":["Tiny"]})"));
  CHECK((pin->index == IndexTotals{.total_size = 3 * 2 * 64, .tensor_count = 6}));
  CHECK(pin->revision == content_revision(pin->files));
  CHECK(pin->revision.size() == 40);
  CHECK(last.files == 6);
  const auto given =
      pin_from_dir(dir.path(), {.model = "tiny", .revision = std::string(40, '1'), .generator = {}}, {}, diagnostics);
  CHECK(given->revision == std::string(40, '1'));
  CHECK(diagnostics.empty());
}

TEST_CASE("pin from a folder: a model that would not load, or by half, is not pinned") {
  const test::TestDir dir;
  test::write_tiny_model(dir.path());
  SECTION("a shard is cut") {
    dir.write(test::shard_name(1, 3), dir.read(test::shard_name(1, 3)).substr(0, 100));
    CHECK((refusals(dir.path()) == RuleIds{diag::rule::weights_header_malformed}));
  }
  SECTION("a shard is missing") {
    std::filesystem::remove(dir / test::shard_name(3, 3));
    CHECK((refusals(dir.path()) == RuleIds{diag::rule::weights_index_names_missing_shard}));
  }
}

TEST_CASE("pin from a folder: the snapshot of a hub cache gives the revision, and no other may be asked for") {
  const test::TestDir cache;
  const std::string commit(40, 'c');
  const auto snapshot = cache / ("models--org--tiny/snapshots/" + commit);
  std::filesystem::create_directories(snapshot);
  std::filesystem::create_directories(cache / "models--org--tiny/blobs");
  test::write_tiny_model(snapshot);
  diag::Diagnostics diagnostics;
  const auto pin = pin_from_dir(snapshot, kSource, {}, diagnostics);
  REQUIRE(pin.has_value());
  CHECK(pin->revision == commit);
  CHECK((refusals(snapshot, {.model = "org/tiny", .revision = std::string(40, 'd'), .generator = {}}) ==
         RuleIds{diag::rule::weights_revision_mismatch}));
}

TEST_CASE("pin from a folder: fails for a link that leaves it, for no folder, and when stopped") {
  const test::TestDir dir;
  const test::TestDir outside;
  CHECK((refusals(dir / "absent") == RuleIds{diag::rule::weights_unreadable}));
  dir.write("a", "x");
  std::stop_source stop;
  stop.request_stop();
  CHECK((refusals(dir.path(), kSource, stop.get_token()) == RuleIds{diag::rule::weights_not_checked}));
  std::filesystem::rename(dir / "a", dir / "a\\b");
  CHECK((refusals(dir.path()) == RuleIds{diag::rule::weights_path_escape}));
  std::filesystem::create_symlink(outside.write("secret", "x"), dir / "b");
  CHECK(refusals(dir.path()).size() == 2);
}

}  // namespace sweep::weights
