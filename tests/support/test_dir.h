// A private folder for one test, and short ways to put files into it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "orchestrator/base/temp_dir.h"

namespace sweep::test {

class TestDir {
 public:
  TestDir();

  const std::filesystem::path& path() const { return dir_.path(); }
  std::filesystem::path operator/(std::string_view name) const { return dir_.path() / name; }

  // Folders in between are made. Returns the full path.
  std::filesystem::path write(std::string_view name, std::string_view content) const;
  std::string read(std::string_view name) const;

 private:
  base::TempDir dir_;
};

// The reference material: $SWEEPCTL_REFERENCE_DATA, else beside the checkout. Empty if it is not there.
std::filesystem::path reference_data();

}  // namespace sweep::test
