// Preloaded into a program under test (LD_PRELOAD), it makes one read of one file go wrong, at a chosen moment.
//   SWEEP_READ_FAULT=KIND:N:PART   at the N-th large read (from 1) of a file whose path ends with PART:
//     eio       the read fails with EIO, as a broken disk makes it
//     kill      the process is killed, as by `kill -9`
//     append    a byte is appended to the file, by name
//     overwrite the first byte is changed, which was read before
//     truncate  the file is cut to half
//     replace   PART.next is renamed over the file
//     interrupt SIGINT is sent; this and every later read of the file then gives one byte only, slowly, so that the
//               program sees the signal before it is through
//   and at every read of such a file:
//     short     only one byte less than asked for is given
//     eintr     every other read is interrupted by a signal
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

constexpr size_t kLargeRead = 65536;  // smaller ones look at headers

struct Fault {
  std::string kind;
  long at = 0;
  std::string part;
};

const Fault& fault() {
  static const Fault parsed = [] {
    Fault result;
    const char* text = std::getenv("SWEEP_READ_FAULT");
    if (text == nullptr) return result;
    const std::string_view all(text);
    const size_t first = all.find(':');
    const size_t second = all.find(':', first + 1);
    result.kind = all.substr(0, first);
    result.at = std::atol(text + first + 1);
    result.part = all.substr(second + 1);
    return result;
  }();
  return parsed;
}

std::string path_of(int fd) {
  std::array<char, 4096> path;
  const ssize_t size = ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path.data(), path.size());
  return size < 0 ? std::string() : std::string(path.data(), static_cast<size_t>(size));
}

// Changes how much is read, or returns false after setting errno.
bool before_read(int fd, size_t& size) {
  static std::atomic<long> reads = 0;
  if (fault().kind.empty() || size < kLargeRead) return true;
  const std::string path = path_of(fd);
  if (!path.ends_with(fault().part)) return true;
  const long number = ++reads;
  if (fault().kind == "short") {
    --size;
    return true;
  }
  if (fault().kind == "eintr") {
    errno = EINTR;
    return number % 2 == 0;
  }
  if (fault().kind == "interrupt" && number >= fault().at) {
    if (number == fault().at) ::kill(::getpid(), SIGINT);
    ::usleep(1000);
    size = 1;
  }
  if (number != fault().at) return true;
  if (fault().kind == "eio") {
    errno = EIO;
    return false;
  }
  if (fault().kind == "kill") ::kill(::getpid(), SIGKILL);
  if (fault().kind == "truncate" && ::truncate(path.c_str(), ::lseek(fd, 0, SEEK_END) / 2) != 0) std::abort();
  if (fault().kind == "replace" && ::rename((path + ".next").c_str(), path.c_str()) != 0) std::abort();
  if (fault().kind == "append" || fault().kind == "overwrite") {
    const int other = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | (fault().kind == "append" ? O_APPEND : 0));
    if (other < 0 || ::write(other, "\x7f", 1) != 1) std::abort();
    ::close(other);
  }
  return true;
}

}  // namespace

extern "C" {

ssize_t pread(int fd, void* to, size_t size, off_t at) {
  if (!before_read(fd, size)) return -1;
  return ::syscall(SYS_pread64, fd, to, size, at);
}

ssize_t pread64(int fd, void* to, size_t size, off64_t at) {
  return pread(fd, to, size, at);
}

// Answers as a file that is not in memory does, so that every read is a plain one.
ssize_t preadv2(int fd, const iovec* pieces, int count, off_t at, int flags) {
  if (flags == 0) return ::syscall(SYS_preadv2, fd, pieces, count, at, 0, flags);
  errno = EAGAIN;
  return -1;
}

ssize_t preadv64v2(int fd, const iovec* pieces, int count, off64_t at, int flags) {
  return preadv2(fd, pieces, count, at, flags);
}
}
