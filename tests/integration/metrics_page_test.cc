// The page of metric definitions against `inspect sse`: its example gives its values.
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "orchestrator/base/file.h"
#include "tests/integration/small_checkout.h"
#include "tests/support/catch.h"

using namespace sweep;
using namespace sweep::test;

TEST_CASE("metrics page: the recorded example gives the values that stand below it") {
  const std::string page =
      base::read_file(std::filesystem::path(SWEEPCTL_SOURCE_DIR) / "orchestrator/sample/README.md").value();
  const size_t begin = page.find("```\n{") + 4;
  REQUIRE(begin > 4);
  const SmallCheckout checkout;
  const auto recording = checkout.root() / "example.jsonl";
  REQUIRE(base::write_file_atomic(recording, page.substr(begin, page.find("```\n", begin) - begin)).has_value());
  const Ran ran = checkout.sweepctl({"inspect", "sse", recording.string(), "--format", "json"});
  INFO(ran.output);
  CHECK(ran.code == 0);
  const auto values = nlohmann::json::parse(ran.output);
  std::istringstream lines(page.substr(page.find("| value | ms |")));
  int checked = 0;
  for (std::string line; std::getline(lines, line) && line.starts_with("|");) {
    if (!line.starts_with("| `")) continue;
    const std::string name = line.substr(3, line.find('`', 3) - 3);
    const double stated = std::stod(line.substr(line.find('|', 3) + 1));
    INFO(line);
    CHECK(std::abs(values.at(name).get<double>() - stated) < 5e-7);
    ++checked;
  }
  CHECK(checked == 5);
  // Every name of the page's column is a value of the command.
  for (const char* name : {"ttft_ms", "e2e_ms", "tpot_ms", "mean_itl_per_token_ms", "mean_gap_per_event_ms"}) {
    CHECK(values.contains(name));
    CHECK(contains(page, std::string("| `") + name + "` |"));
  }
}
