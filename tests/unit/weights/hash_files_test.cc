#include "orchestrator/weights/hash_files.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "orchestrator/digest/sha1.h"
#include "orchestrator/digest/sha256.h"
#include "tests/support/catch.h"
#include "tests/support/test_dir.h"

namespace sweep::weights {

TEST_CASE("hash files: digests are right for every number of threads, outcomes in the order of the tasks") {
  const test::TestDir dir;
  std::vector<HashTask> tasks;
  std::vector<std::string> contents;
  for (int i = 0; i < 20; ++i) {
    contents.emplace_back(static_cast<size_t>(i) * 70'001, static_cast<char>('a' + i));
    tasks.push_back({.file = dir.write(fmt::format("f{}", i), contents.back()),
                     .size = contents.back().size(),
                     .git_blob = i % 2 == 0});
  }
  for (const unsigned threads : {1u, 2u, 7u, 64u}) {
    CAPTURE(threads);
    HashProgress last;
    const auto outcomes =
        hash_files(tasks, {.threads = threads, .progress = [&](const HashProgress& p) { last = p; }}, {});
    REQUIRE(outcomes.size() == tasks.size());
    uint64_t bytes = 0;
    for (size_t i = 0; i < outcomes.size(); ++i) {
      CHECK((outcomes[i].state == HashState::kDone));
      CHECK(outcomes[i].sha256 == digest::sha256_hex(contents[i]));
      CHECK(outcomes[i].git_blob == (i % 2 == 0 ? digest::git_blob_id(contents[i]) : ""));
      bytes += outcomes[i].size;
    }
    CHECK(last.bytes == bytes);
    CHECK(last.total_bytes == bytes);
    CHECK(last.files == 20);
  }
}

TEST_CASE("hash files: what is missing, a link, a folder or a FIFO is unreadable and does not hang") {
  const test::TestDir dir;
  std::filesystem::create_symlink(dir.write("target", "x"), dir / "link");
  std::filesystem::create_directory(dir / "folder");
  REQUIRE(::mkfifo((dir / "fifo").c_str(), 0600) == 0);
  const std::vector<HashTask> tasks{
      {.file = dir / "missing"}, {.file = dir / "link"}, {.file = dir / "folder"}, {.file = dir / "fifo"}};
  for (const auto& outcome : hash_files(tasks, {}, {})) {
    CHECK((outcome.state == HashState::kUnreadable));
    CHECK(!outcome.reason.empty());
  }
}

TEST_CASE("hash files: no file is no work") {
  CHECK(hash_files({}, {}, {}).empty());
}

TEST_CASE("hash files: a stop request leaves the rest undone and never a wrong digest") {
  const test::TestDir dir;
  std::vector<HashTask> tasks;
  for (int i = 0; i < 8; ++i) tasks.push_back({.file = dir.write(fmt::format("f{}", i), "x"), .size = 1});
  std::stop_source stop;
  stop.request_stop();
  for (const auto& outcome : hash_files(tasks, {}, stop.get_token())) CHECK((outcome.state == HashState::kNotDone));
}

}  // namespace sweep::weights
