#include "orchestrator/base/file.h"

#include <sys/stat.h>

#include <cerrno>
#include <thread>

#include "tests/support/catch.h"
#include "tests/support/test_dir.h"

namespace sweep::base {

TEST_CASE("read_file: whole content, of any bytes and of none") {
  const test::TestDir dir;
  const std::string bytes("a\0b\xff\r\n", 6);
  CHECK(read_file(dir.write("f", bytes)).value() == bytes);
  CHECK(read_file(dir.write("empty", "")).value().empty());
  CHECK(!read_file("/proc/self/status").value().empty());  // reports size 0
}

TEST_CASE("read_file: what is not a readable regular file is an error with its reason") {
  const test::TestDir dir;
  CHECK(read_file(dir / "absent").error().error_number == ENOENT);
  CHECK(read_file(dir.path()).error().error_number == EISDIR);
  REQUIRE(::mkfifo((dir / "fifo").c_str(), 0600) == 0);
  CHECK(read_file(dir / "fifo").error().error_number == EINVAL);
  CHECK(read_file("/dev/zero").error().error_number == EINVAL);
  const std::string text = read_file(dir / "absent").error().text();
  CHECK(text == "cannot open " + (dir / "absent").string() + ": No such file or directory");
}

TEST_CASE("read_file: a limit holds to the byte") {
  const test::TestDir dir;
  const auto file = dir.write("f", std::string(5000, 'x'));
  CHECK(read_file(file, 5000).has_value());
  CHECK(read_file(file, 4999).error().error_number == EFBIG);
  CHECK(read_file("/proc/self/status", 10).error().error_number == EFBIG);
}

TEST_CASE("write_file_atomic: replaces content, leaves no other file, and respects the mode mask") {
  const test::TestDir dir;
  REQUIRE(write_file_atomic(dir / "f", "one").has_value());
  REQUIRE(write_file_atomic(dir / "f", "two").has_value());
  CHECK(dir.read("f") == "two");
  CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), std::filesystem::directory_iterator()) == 1);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  struct stat status {};
  REQUIRE(::stat((dir / "f").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == (0666u & ~mask));
}

TEST_CASE("write_file_atomic: a failure keeps the former content and leaves no temporary file") {
  const test::TestDir dir;
  CHECK(!write_file_atomic(dir / "absent/f", "x").has_value());
  std::filesystem::create_directory(dir / "folder");
  CHECK(!write_file_atomic(dir / "folder", "x").has_value());
  CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), std::filesystem::directory_iterator()) == 1);
  CHECK(!write_file_atomic("/dev/null/x", "x").has_value());
}

TEST_CASE("write_file_atomic: a reader sees the old or the new content, never a part") {
  const test::TestDir dir;
  const std::string a(100'000, 'a');
  const std::string b(200'000, 'b');
  REQUIRE(write_file_atomic(dir / "f", a).has_value());
  std::jthread writer([&] {
    for (int i = 0; i < 20; ++i) static_cast<void>(write_file_atomic(dir / "f", i % 2 == 0 ? b : a).has_value());
  });
  for (int i = 0; i < 200; ++i) {
    const auto content = read_file(dir / "f");
    REQUIRE(content.has_value());
    const bool whole = *content == a || *content == b;
    REQUIRE(whole);
  }
}

TEST_CASE("make_directories: makes all parents and accepts what is there") {
  const test::TestDir dir;
  CHECK(make_directories(dir / "a/b/c").has_value());
  CHECK(make_directories(dir / "a/b/c").has_value());
  dir.write("file", "x");
  CHECK(!make_directories(dir / "file/sub").has_value());
}

TEST_CASE("file descriptor: closes once, moves, releases") {
  FileDescriptor first(::dup(0));
  const int number = first.get();
  FileDescriptor second(std::move(first));
  CHECK(!first.is_open());  // NOLINT(bugprone-use-after-move): the moved-from state is what is tested
  CHECK(second.get() == number);
  second.reset();
  second.reset();
  CHECK(!second.is_open());
}

}  // namespace sweep::base
