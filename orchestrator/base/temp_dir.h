// A private folder that disappears with the object.
#pragma once

#include <filesystem>

#include "orchestrator/base/file.h"

namespace sweep::base {

class TempDir {
 public:
  // Makes a new folder in `parent`, or in the system's folder for temporary files.
  static Expected<TempDir, IoError> create(const std::filesystem::path& parent = {});

  TempDir(TempDir&& other) noexcept;
  TempDir& operator=(TempDir&& other) noexcept;
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir();

  const std::filesystem::path& path() const { return path_; }

 private:
  explicit TempDir(std::filesystem::path path) : path_(std::move(path)) {}
  void remove();

  std::filesystem::path path_;
};

}  // namespace sweep::base
