// Files as whole values: read completely, or replaced completely.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "orchestrator/base/expected.h"

namespace sweep::base {

// A failed system call on a path.
struct IoError {
  std::string operation;  // "open", "write", ...
  std::filesystem::path path;
  int error_number = 0;

  // "cannot open matrix/x.yaml: No such file or directory"
  std::string text() const;
};

// The whole content. Fails for anything that is not a readable regular file, or is larger than max_bytes (EFBIG).
Expected<std::string, IoError> read_file(const std::filesystem::path& path, uint64_t max_bytes = UINT64_MAX);

// Writes to a temporary name in the same folder, syncs and renames: after a crash at any moment, `path` holds either
// its former content or all of `content`. The folder must exist.
Expected<Done, IoError> write_file_atomic(const std::filesystem::path& path, std::string_view content);

// mkdir -p.
Expected<Done, IoError> make_directories(const std::filesystem::path& path);

// An open file descriptor, closed when it goes out of scope.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() { reset(); }

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  int release();
  void reset();

 private:
  int fd_ = -1;
};

}  // namespace sweep::base
