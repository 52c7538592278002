#include "orchestrator/weights/hash_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "orchestrator/base/file.h"
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

TEST_CASE("hash files: files that are not in memory give the same digests") {
  const test::TestDir dir;
  std::vector<HashTask> tasks;
  std::vector<std::string> digests;
  for (const size_t mebibytes : {41, 9, 1, 0}) {
    const std::string content((mebibytes << 20) + mebibytes, static_cast<char>('a' + mebibytes));
    const auto file = dir.write(fmt::format("{}", mebibytes), content);
    const base::FileDescriptor fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    REQUIRE(::fdatasync(fd.get()) == 0);
    ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
    tasks.push_back({.file = file, .size = content.size()});
    digests.push_back(digest::sha256_hex(content));
  }
  for (const unsigned threads : {1u, 3u}) {
    const auto outcomes = hash_files(tasks, {.threads = threads}, {});
    for (size_t i = 0; i < tasks.size(); ++i) {
      CHECK((outcomes[i].state == HashState::kDone));
      CHECK(outcomes[i].sha256 == digests[i]);
    }
  }
}

TEST_CASE("hash files: what is known is taken only under its own stamp, and only if it is enough") {
  const test::TestDir dir;
  const auto file = dir.write("file", "content");
  struct stat status {};
  REQUIRE(::stat(file.c_str(), &status) == 0);
  const KnownDigests known{.stamp = stamp_of(status), .sha256 = std::string(64, '0'), .git_blob = {}};
  const auto hash = [&](const KnownDigests& digests, bool git_blob) {
    const std::vector<HashTask> tasks{{.file = file, .size = 7, .git_blob = git_blob, .known = digests}};
    return hash_files(tasks, {.threads = 1}, {}).front();
  };
  CHECK(hash(known, false).sha256 == known.sha256);
  CHECK(hash(known, false).from_known);
  CHECK(!hash(known, true).from_known);  // its git blob id is not known
  for (int64_t FileStamp::*time : {&FileStamp::mtime_ns, &FileStamp::ctime_ns}) {
    KnownDigests other = known;
    other.stamp.*time += 1;
    CHECK(hash(other, false).sha256 == digest::sha256_hex("content"));
  }
  for (uint64_t FileStamp::*part : {&FileStamp::device, &FileStamp::inode, &FileStamp::size}) {
    KnownDigests other = known;
    other.stamp.*part += 1;
    CHECK(!hash(other, false).from_known);
  }
}

}  // namespace sweep::weights
