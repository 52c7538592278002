// The README shows real output: what it prints about the broken entry is what validate prints.
#include <regex>
#include <sstream>

#include "orchestrator/base/file.h"
#include "tests/integration/small_checkout.h"
#include "tests/support/catch.h"

using namespace sweep;
using namespace sweep::test;
namespace fs = std::filesystem;

namespace {

std::string readme() {
  return base::read_file(fs::path(SWEEPCTL_SOURCE_DIR) / "README.md").value();
}

}  // namespace

TEST_CASE("readme: the broken entry gives exactly the diagnostics that are shown") {
  const SmallCheckout checkout;
  const fs::path source = SWEEPCTL_SOURCE_DIR;
  for (const char* file : {"matrix/embedded.yaml", "recipes/embedded/mla-8h-dspark-8k256.yaml"})
    fs::copy(source / file, checkout.root() / file, fs::copy_options::overwrite_existing);
  checkout.edit("matrix/embedded.yaml", "length: 5.7", "length: 9");
  checkout.edit("matrix/embedded.yaml", "  precision: fp8", "  precison: fp8");
  checkout.edit("matrix/embedded.yaml", "osl: 256", "osl: 1e3");
  const Ran ran = checkout.sweepctl({"validate"});
  CHECK(ran.code == 1);
  const std::string text = readme();
  const size_t begin = text.find("```\n") + 4;
  const std::string shown = text.substr(begin, text.find("```\n", begin) - begin);
  INFO(ran.output);
  CHECK(contains(ran.output, shown));
}

TEST_CASE("readme: the damaged model gives exactly the diagnostics that are shown") {
  const SmallCheckout checkout;
  const fs::path model = checkout.copy_of_model();
  const fs::path shard = model / "model-00002-of-00003.safetensors";
  std::string content = base::read_file(shard).value();
  content[1'000'000] = static_cast<char>(content[1'000'000] ^ 1);
  REQUIRE(base::write_file_atomic(shard, content).has_value());
  fs::remove(model / "tokenizer.json");
  const Ran ran = checkout.sweepctl(
      {"weights", "verify", model.string(), "--pin", SWEEPCTL_SOURCE_DIR "/matrix/models/embedded-mla-8h.json"});
  CHECK(ran.code == 1);
  const std::string text = readme();
  const size_t begin = text.find("sweepctl: error: \"model-00002");
  std::string shown = text.substr(begin, text.find("```\n", begin) - begin);
  const std::string place = "fetch it again into ";
  shown.replace(shown.find(place + "DIR"), place.size() + 3, place + fs::canonical(model).string());
  INFO(ran.output);
  CHECK(contains(ran.output, shown));
}

namespace {

// A summary without what differs from run to run and from size to size: numbers, names of builds, whether the machine
// had hashed the weights before, and the rest of the latency table, where few samples have no percentiles.
std::string without_figures(const std::string& summary) {
  const std::regex known(" \\(unchanged since they were hashed\\)");
  const std::string text =
      std::regex_replace(std::regex_replace(summary, known, ""), std::regex("cpu-[0-9a-f]{16}"), "cpu-#");
  const std::regex figure("[0-9]+(\\.[0-9]+)?");
  const std::regex row("^  (TTFT|TPOT|ITL|inter-chunk|E2E).*");
  std::istringstream lines(text);
  std::string form;
  for (std::string line; std::getline(lines, line);) {
    std::smatch label;
    form += std::regex_match(line, label, row) ? label.str(1) : std::regex_replace(line, figure, "#");
    form += '\n';
  }
  return std::regex_replace(form, std::regex(" +"), " ");
}

}  // namespace

TEST_CASE("readme: the run that is shown says what a run says") {
  const SmallCheckout checkout;
  const Ran ran = checkout.run();
  REQUIRE(ran.code == 0);
  const std::string printed = checkout.sweepctl({"summary", checkout.out().string()}).output;
  const std::string text = readme();
  const size_t begin = text.find("embedded-dspark-8k256  VALID\n");
  REQUIRE(begin != std::string::npos);
  const std::string shown = without_figures(text.substr(begin, text.find("```\n", begin) - begin));
  INFO(printed);
  CHECK(contains(without_figures(printed.substr(printed.find("embedded-dspark-8k256  VALID\n"))), shown));
}

TEST_CASE("readme: every sub-command that is named exists and has help") {
  const SmallCheckout checkout;
  const std::string text = readme();
  int named = 0;
  for (size_t at = text.find("| `sweepctl "); at != std::string::npos; at = text.find("| `sweepctl ", at + 1)) {
    const size_t begin = at + std::string("| `sweepctl ").size();
    const std::string command = text.substr(begin, text.find_first_of(" `", begin) - begin);
    INFO(command);
    CHECK(checkout.sweepctl({command, "--help"}).code == 0);
    ++named;
  }
  CHECK(named >= 7);
}

TEST_CASE("readme: the pinned revision that is shown is the matrix's") {
  const std::string matrix = base::read_file(fs::path(SWEEPCTL_SOURCE_DIR) / "matrix/embedded.yaml").value();
  const size_t begin = matrix.find("revision: \"") + std::string("revision: \"").size();
  CHECK(contains(readme(), matrix.substr(begin, 40)));
}
