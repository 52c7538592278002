#include "orchestrator/base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace sweep::base {

namespace {

Unexpected<IoError> io_error(std::string operation, const std::filesystem::path& path) {
  return Unexpected{IoError{std::move(operation), path, errno}};
}

bool write_all(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    content.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace

std::string IoError::text() const {
  return fmt::format("cannot {} {}: {}", operation, path.string(), std::generic_category().message(error_number));
}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

int FileDescriptor::release() {
  return std::exchange(fd_, -1);
}

void FileDescriptor::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Expected<std::string, IoError> read_file(const std::filesystem::path& path, uint64_t max_bytes) {
  // O_NONBLOCK keeps a FIFO from hanging the open; it has no effect on regular files.
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.is_open()) return io_error("open", path);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return io_error("inspect", path);
  if (S_ISDIR(status.st_mode)) {
    errno = EISDIR;
    return io_error("read", path);
  }
  if (!S_ISREG(status.st_mode)) {
    errno = EINVAL;
    return io_error("read", path);
  }
  if (static_cast<uint64_t>(status.st_size) > max_bytes) {
    errno = EFBIG;
    return io_error("read", path);
  }
  std::string content;
  content.resize(static_cast<size_t>(status.st_size));
  size_t filled = 0;
  while (true) {
    if (filled > max_bytes) {
      errno = EFBIG;
      return io_error("read", path);
    }
    // Files of /proc report size 0; others may grow while read.
    if (filled == content.size()) content.resize(content.size() + 4096);
    const ssize_t got = ::read(fd.get(), content.data() + filled, content.size() - filled);
    if (got < 0) {
      if (errno == EINTR) continue;
      return io_error("read", path);
    }
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  content.resize(filled);
  return content;
}

Expected<Done, IoError> write_file_atomic(const std::filesystem::path& path, std::string_view content) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  std::string temporary = (folder / fmt::format(".{}.XXXXXX", path.filename().string())).string();
  FileDescriptor fd(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd.is_open()) return io_error("create", path);
  const auto fail = [&](const char* operation) {
    auto error = io_error(operation, path);
    ::unlink(temporary.c_str());
    return error;
  };
  const mode_t mask = ::umask(0);
  ::umask(mask);
  if (::fchmod(fd.get(), 0666 & ~mask) != 0) return fail("set the mode of");
  if (!write_all(fd.get(), content)) return fail("write");
  if (::fsync(fd.get()) != 0) return fail("sync");
  fd.reset();
  if (::rename(temporary.c_str(), path.c_str()) != 0) return fail("replace");
  FileDescriptor folder_fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder_fd.is_open()) ::fsync(folder_fd.get());
  return Done{};
}

Expected<Done, IoError> make_directories(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return Unexpected{IoError{"create folder", path, error.value()}};
  return Done{};
}

}  // namespace sweep::base
