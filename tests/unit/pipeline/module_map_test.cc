// The module map of orchestrator/README.md is what the includes say.
#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "orchestrator/base/file.h"
#include "tests/support/catch.h"

using namespace sweep;
namespace fs = std::filesystem;

namespace {

using Map = std::map<std::string, std::set<std::string>>;

std::set<std::string> words(const std::string& text) {
  std::set<std::string> result;
  static const std::regex kWord("[a-z_]+");
  for (auto it = std::sregex_iterator(text.begin(), text.end(), kWord); it != std::sregex_iterator(); ++it)
    result.insert(it->str());
  return result;
}

// Rows "| `yaml/` | ... | diag |"; "all above" and "... and below" mean every module of the rows before.
Map module_map(const std::string& readme) {
  Map map;
  std::istringstream lines(readme);
  std::string line;
  static const std::regex kRow("^\\| `([a-z_/]+)/` \\|.*\\| ?([^|]*) ?\\|$");
  while (std::getline(lines, line)) {
    std::smatch match;
    if (!std::regex_match(line, match, kRow)) continue;
    std::set<std::string> uses = words(match[2].str());
    if (uses.contains("above") || uses.contains("below"))
      for (const auto& [module, ignored] : Map(map)) uses.insert(module);
    map[match[1].str()] = uses;
  }
  return map;
}

}  // namespace

TEST_CASE("module map: every module is in the table and includes only what its row allows") {
  const fs::path root = fs::path(SWEEPCTL_SOURCE_DIR) / "orchestrator";
  const Map map = module_map(base::read_file(root / "README.md").value());
  REQUIRE(map.size() > 15);
  static const std::regex kInclude("#include \"orchestrator/([a-z_]+)/(embedded/)?");
  for (const auto& item : fs::recursive_directory_iterator(root)) {
    const std::string extension = item.path().extension().string();
    if (extension != ".h" && extension != ".cc") continue;
    const fs::path relative = fs::relative(item.path(), root);
    std::string module = relative.begin()->string();
    if (relative.string().starts_with("engine/embedded/")) module = "engine/embedded";
    INFO(relative.string());
    REQUIRE(map.contains(module));
    const std::string text = base::read_file(item.path()).value();
    for (auto it = std::sregex_iterator(text.begin(), text.end(), kInclude); it != std::sregex_iterator(); ++it) {
      std::string used = (*it)[1].str();
      const bool embedded = (*it)[2].length() != 0;
      if (used == module || (embedded && module == "engine/embedded")) continue;
      INFO("includes " << used);
      CHECK(map.at(module).contains(used));
    }
  }
}
