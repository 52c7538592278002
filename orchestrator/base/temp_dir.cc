#include "orchestrator/base/temp_dir.h"

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>
#include <utility>

namespace sweep::base {

Expected<TempDir, IoError> TempDir::create(const std::filesystem::path& parent) {
  std::error_code error;
  const std::filesystem::path folder = parent.empty() ? std::filesystem::temp_directory_path(error) : parent;
  if (error) return Unexpected{IoError{"find the folder for temporary files", "/tmp", error.value()}};
  std::string name = (folder / "sweepctl-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) return Unexpected{IoError{"create a temporary folder in", folder, errno}};
  return TempDir(name);
}

TempDir::TempDir(TempDir&& other) noexcept : path_(std::exchange(other.path_, {})) {}

TempDir& TempDir::operator=(TempDir&& other) noexcept {
  if (this != &other) {
    remove();
    path_ = std::exchange(other.path_, {});
  }
  return *this;
}

TempDir::~TempDir() {
  remove();
}

void TempDir::remove() {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace sweep::base
