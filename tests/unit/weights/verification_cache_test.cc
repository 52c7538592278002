#include "orchestrator/weights/verification_cache.h"

#include "orchestrator/base/file.h"
#include "orchestrator/digest/sha256.h"
#include "tests/support/catch.h"
#include "tests/support/test_dir.h"

namespace sweep::weights {

namespace {

const KnownDigests kShard{.stamp = {.device = 1, .inode = 2, .size = 3, .mtime_ns = 4, .ctime_ns = 5},
                          .sha256 = std::string(64, 'a'),
                          .git_blob = std::string(40, 'b')};

// The one file in the cache.
std::filesystem::path file_in(const test::TestDir& dir) {
  std::filesystem::path file;
  for (const auto& entry : std::filesystem::directory_iterator(dir / "verified")) file = entry.path();
  return file;
}

VerificationCache filled(const test::TestDir& dir) {
  VerificationCache cache(dir.path(), "/models/a", "pin");
  cache.put(kShard);
  cache.set_sound_state("state");
  REQUIRE(cache.save().has_value());
  return cache;
}

}  // namespace

TEST_CASE("verification cache: gives back what was put, to the same model and pin only") {
  const test::TestDir dir;
  filled(dir);
  const VerificationCache again(dir.path(), "/models/a", "pin");
  CHECK((again.find(kShard.stamp) == kShard));
  CHECK(again.sound_state() == "state");
  CHECK(!again.find({.device = 1, .inode = 3}).has_value());
  CHECK(!VerificationCache(dir.path(), "/models/a", "other pin").find(kShard.stamp).has_value());
  CHECK(!VerificationCache(dir.path(), "/models/b", "pin").find(kShard.stamp).has_value());
}

TEST_CASE("verification cache: the latest stamp of an inode replaces the one before") {
  const test::TestDir dir;
  VerificationCache cache = filled(dir);
  KnownDigests written = kShard;
  written.stamp.ctime_ns = 6;
  written.sha256 = std::string(64, 'c');
  cache.put(written);
  REQUIRE(cache.save().has_value());
  CHECK((VerificationCache(dir.path(), "/models/a", "pin").find(kShard.stamp) == written));
}

TEST_CASE("verification cache: nothing changed, nothing written") {
  const test::TestDir dir;
  VerificationCache cache = filled(dir);
  std::filesystem::remove(file_in(dir));
  cache.put(kShard);
  cache.set_sound_state("state");
  REQUIRE(cache.save().has_value());
  CHECK(file_in(dir).empty());
}

TEST_CASE("verification cache: text that is well signed and still no cache is not taken") {
  const test::TestDir dir;
  filled(dir);
  const std::filesystem::path file = file_in(dir);
  const std::string text = base::read_file(file).value();
  const std::string body = text.substr(0, text.size() - 65);
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string changed = body;
    changed.replace(changed.find(from), from.size(), to);
    return changed;
  };
  const auto takes = [&](const std::string& content) {
    REQUIRE(base::write_file_atomic(file, content + digest::sha256_hex(content) + "\n").has_value());
    return VerificationCache(dir.path(), "/models/a", "pin").find(kShard.stamp).has_value();
  };
  CHECK(takes(body));
  CHECK(!takes(""));
  CHECK(!takes("not JSON"));
  CHECK(!takes("[]"));
  CHECK(!takes(replaced("\"inode\": 2", "\"inode\": \"2\"")));
  CHECK(!takes(replaced("\"inode\": 2", "\"inode\": 2.5")));
  CHECK(!takes(replaced("\"mtime_ns\"", "\"mtime\"")));
  CHECK(!takes(replaced("\"sound_state\"", "\"state\"")));
  CHECK(!takes(replaced("\"key\": \"", "\"key\": \"0")));
}

TEST_CASE("verification cache: the state of a model is that of its names and stamps") {
  const NamedStamp a{.path = "a", .stamp = kShard.stamp};
  const NamedStamp b{.path = "b", .stamp = kShard.stamp};
  NamedStamp later = b;
  later.stamp.mtime_ns = 5;
  const std::string state = state_of(std::vector{a, b});
  CHECK(state == state_of(std::vector{a, b}));
  CHECK(state != state_of(std::vector{a}));
  CHECK(state != state_of(std::vector{b, a}));
  CHECK(state != state_of(std::vector{a, later}));
}

}  // namespace sweep::weights
