#include "orchestrator/weights/file_stamp.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "orchestrator/base/clock.h"
#include "orchestrator/base/file.h"
#include "tests/support/catch.h"
#include "tests/support/test_dir.h"

namespace sweep::weights {

namespace {

constexpr int64_t kSecond = 1'000'000'000;

FileStamp stamp_at(int fd) {
  struct stat status {};
  REQUIRE(::fstat(fd, &status) == 0);
  return stamp_of(status);
}

}  // namespace

TEST_CASE("file stamp: every change of a file gives it another stamp") {
  const test::TestDir dir;
  const auto path = dir.write("file", "content");
  struct stat status {};
  const auto stamp = [&] {
    REQUIRE(::stat(path.c_str(), &status) == 0);
    return stamp_of(status);
  };
  const FileStamp first = stamp();
  CHECK(first.size == 7);
  CHECK(first.mtime_ns > 0);
  while (base::unix_ns() < first.ctime_ns + kSecond / 20) ::usleep(1000);  // past the tick of the kernel's clock
  dir.write("file", "CONTENT");
  const FileStamp written = stamp();
  CHECK(written != first);
  CHECK(written.size == first.size);
  // Setting the times back leaves its own trace.
  const timespec back[2] = {{first.mtime_ns / kSecond, first.mtime_ns % kSecond},
                            {first.mtime_ns / kSecond, first.mtime_ns % kSecond}};
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), back, 0) == 0);
  CHECK(stamp().mtime_ns == first.mtime_ns);
  CHECK(stamp() != first);
}

TEST_CASE("file stamp: settled once the last change lies two seconds back, and never in the future") {
  const FileStamp stamp{.device = 1, .inode = 2, .size = 3, .mtime_ns = 100 * kSecond, .ctime_ns = 101 * kSecond};
  CHECK(!is_settled(stamp, 100 * kSecond));
  CHECK(!is_settled(stamp, 101 * kSecond));
  CHECK(!is_settled(stamp, 103 * kSecond - 1));
  CHECK(is_settled(stamp, 103 * kSecond));
  FileStamp future = stamp;
  future.mtime_ns = 1000 * kSecond;
  CHECK(!is_settled(future, 103 * kSecond));
}

TEST_CASE("file stamp: where it proves something, writing through a mapping made before changes it") {
  const test::TestDir dir;
  const auto path = dir.write("file", std::string(8192, 'x'));
  const base::FileDescriptor writer(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  void* memory = ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, writer.get(), 0);
  REQUIRE(memory != MAP_FAILED);
  auto* bytes = static_cast<volatile char*>(memory);
  bytes[0] = 'a';  // the page is dirty now: further writes to it pass unseen until it is written out
  const base::FileDescriptor reader(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const FileStamp before = stamp_at(reader.get());
  const auto reason = why_stamp_proves_nothing(reader.get());
  while (base::unix_ns() < before.ctime_ns + kSecond / 20) ::usleep(1000);
  bytes[1] = 'b';
  const FileStamp after = stamp_at(reader.get());
  ::munmap(memory, 8192);
  if (reason) SWEEP_SKIP("no stamp proves anything here: " + *reason);
  CHECK(after != before);
}

TEST_CASE("file stamp: on a file system in memory it proves nothing") {
  const base::FileDescriptor fd(::open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!fd.is_open()) SWEEP_SKIP("there is no /dev/shm to write to");
  const auto reason = why_stamp_proves_nothing(fd.get());
  REQUIRE(reason.has_value());
  CHECK(*reason == "it lies on tmpfs");
}

}  // namespace sweep::weights
