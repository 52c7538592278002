// Expected output in files. With SWEEPCTL_UPDATE_GOLDENS=1 in the environment the files are written instead of
// compared; the difference then shows in the commit.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace sweep::testing {

// tests/golden in the source tree.
std::filesystem::path golden_folder();

// Compares with the file's content, or writes it. A missing file fails the test.
void check_golden(const std::filesystem::path& file, const std::string& actual);

// Files of a folder with one of the extensions of configuration files, sorted.
std::vector<std::filesystem::path> configuration_files(const std::filesystem::path& folder);

// Makes a folder the current one while it lives, so that output holds no absolute paths.
class CurrentFolder {
 public:
  explicit CurrentFolder(const std::filesystem::path& folder);
  ~CurrentFolder();
  CurrentFolder(const CurrentFolder&) = delete;
  CurrentFolder& operator=(const CurrentFolder&) = delete;

 private:
  std::filesystem::path before_;
};

}  // namespace sweep::testing
