#include "tests/support/test_dir.h"

#include <cstdlib>
#include <fstream>
#include <system_error>
#include <utility>

#include "orchestrator/base/check.h"

namespace sweep::test {

namespace {
base::TempDir make_dir() {
  auto dir = base::TempDir::create();
  SWEEPCTL_CHECK(dir.has_value());
  return std::move(*dir);
}
}  // namespace

TestDir::TestDir() : dir_(make_dir()) {}

std::filesystem::path TestDir::write(std::string_view name, std::string_view content) const {
  const std::filesystem::path path = dir_.path() / name;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  SWEEPCTL_CHECK(file.good());
  return path;
}

std::string TestDir::read(std::string_view name) const {
  const auto content = base::read_file(dir_.path() / name);
  SWEEPCTL_CHECK(content.has_value());
  return *content;
}

std::filesystem::path reference_data() {
  const char* named = std::getenv("SWEEPCTL_REFERENCE_DATA");
  const std::filesystem::path data = named != nullptr
                                         ? std::filesystem::path(named)
                                         : std::filesystem::path(SWEEPCTL_SOURCE_DIR) / ".." / "shared" / "data";
  std::error_code error;
  return std::filesystem::is_directory(data, error) ? data : std::filesystem::path();
}

}  // namespace sweep::test
