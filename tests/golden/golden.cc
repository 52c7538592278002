#include "tests/golden/golden.h"

#include <algorithm>
#include <cstdlib>

#include "orchestrator/base/file.h"
#include "tests/support/catch.h"

namespace sweep::testing {

namespace fs = std::filesystem;

fs::path golden_folder() {
  return fs::path(SWEEP_SOURCE_DIR) / "tests" / "golden";
}

void check_golden(const fs::path& file, const std::string& actual) {
  INFO("golden file " << file.string());
  const char* update = std::getenv("SWEEPCTL_UPDATE_GOLDENS");
  if (update != nullptr && std::string(update) == "1") {
    REQUIRE(base::write_file_atomic(file, actual).has_value());
    return;
  }
  const auto expected = base::read_file(file);
  REQUIRE(expected.has_value());
  CHECK(actual == *expected);
}

std::vector<fs::path> configuration_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".yaml" || entry.path().extension() == ".json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

CurrentFolder::CurrentFolder(const fs::path& folder) : before_(fs::current_path()) {
  fs::current_path(folder);
}

CurrentFolder::~CurrentFolder() {
  std::error_code ignored;
  fs::current_path(before_, ignored);
}

}  // namespace sweep::testing
