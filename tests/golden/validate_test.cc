// Files and small checkouts with the exact text that `validate` says about them.
#include <algorithm>
#include <map>
#include <set>

#include "orchestrator/base/file.h"
#include "orchestrator/base/temp_dir.h"
#include "orchestrator/diag/render.h"
#include "orchestrator/diag/rule_examples.h"
#include "orchestrator/schema/checkout.h"
#include "tests/golden/golden.h"
#include "tests/support/catch.h"

namespace fs = std::filesystem;
using namespace sweep;
using testing::check_golden;
using testing::configuration_files;
using testing::CurrentFolder;

namespace {

// Families, and single rules, that no golden file can break, and why. Every other rule must have a file that breaks it
// and one that obeys it.
const std::map<std::string, std::string> kWithoutGolden{
    {"yaml/too-large", "its file would be too large to keep; the tests of yaml build it"},
    {"file/", "about files that cannot be read or written"},
    {"cli/", "about the command line"},
    {"git/", "about repositories and revisions"},
    {"http/", "about servers"},
    {"hub/", "about replies of a model hub"},
    {"load/", "about replies of servers"},
    {"exec/", "about processes"},
    {"kernels/", "about builds and their gate"},
    {"engine/", "about engines"},
    {"embedded/", "about the bundled engine and its model"},
    {"judge/", "about measurements"},
    {"power/", "about samples of GPUs; the tests of telemetry break them"},
    {"result/row", "about flat rows; the tests of judge break it"},
    {"result/gpu-", "about flat rows; the tests of judge break them"},
    {"result/per-gpu", "about flat rows; the tests of judge break it"},
    {"result/differs", "about a result and its raw records; the tests of inspect break it"},
    {"result/not-recomputed", "about what lies beside a result; the tests of inspect break it"},
    {"run/", "about runs"},
    {"plan/", "about what is selected; the tests of plan break them"},
    {"changes/", "about two revisions; the tests of plan break them"},
    {"weights/", "about staged weights; the one about pin files follows"},
    {"changelog/behind", "about revisions of a repository"},
    {"changelog/file-deleted", "about a file that is no longer there"},
    {"changelog/bad-entry", "about an entry that a command line describes"},
    {"changelog/no-conflict", "about the stages of a merge"},
    {"recipe/fingerprint", "about files beside the checkout; the tests of plan break it"}};
const std::set<std::string> kWithGolden{"weights/pin-incomplete"};

bool needs_golden(const std::string& slug) {
  if (kWithGolden.contains(slug)) return true;
  return std::none_of(kWithoutGolden.begin(), kWithoutGolden.end(),
                      [&](const auto& item) { return slug.starts_with(item.first); });
}

std::string text_of(const schema::Validation& validation) {
  std::string text = diag::render_text(validation.diagnostics, validation.sources);
  const std::string count = diag::count_text(validation.diagnostics);
  return count.empty() ? text : text + count + "\n";
}

std::string text_of(const schema::Checkout& checkout) {
  std::string text = diag::render_text(checkout.diagnostics, checkout.sources);
  const std::string count = diag::count_text(checkout.diagnostics);
  return count.empty() ? text : text + count + "\n";
}

void add_rules(const std::string& text, std::set<std::string>& rules) {
  for (size_t open = text.find(" ["); open != std::string::npos; open = text.find(" [", open + 1)) {
    const size_t close = text.find("]\n", open);
    if (close != std::string::npos) rules.insert(text.substr(open + 2, close - open - 2));
  }
}

}  // namespace

TEST_CASE("validate: files that are right give no diagnostic") {
  const CurrentFolder folder(testing::golden_folder() / "validate");
  const auto files = configuration_files(fs::path("ok"));
  REQUIRE(!files.empty());
  for (const fs::path& file : files) {
    INFO(file.string());
    CHECK(text_of(schema::validate_paths(".", {file})) == "");
  }
}

TEST_CASE("validate: files that are wrong give exactly the expected text") {
  const CurrentFolder folder(testing::golden_folder() / "validate");
  const auto files = configuration_files(fs::path("err"));
  REQUIRE(!files.empty());
  for (const fs::path& file : files) {
    INFO(file.string());
    const std::string text = text_of(schema::validate_paths(".", {file}));
    CHECK(!text.empty());
    check_golden(testing::golden_folder() / "validate" / fs::path(file).replace_extension(".out"), text);
  }
}

TEST_CASE("validate: small checkouts give exactly the expected text") {
  const fs::path projects = testing::golden_folder() / "projects";
  size_t count = 0;
  for (const fs::directory_entry& project : fs::directory_iterator(projects)) {
    if (!project.is_directory()) continue;
    ++count;
    const CurrentFolder folder(project.path());
    check_golden(projects / (project.path().filename().string() + ".out"), text_of(schema::load_checkout(".")));
  }
  CHECK(count > 0);
}

TEST_CASE("validate: the checkout's own files give only the expected warnings") {
  const CurrentFolder folder(SWEEP_SOURCE_DIR);
  const schema::Checkout checkout = schema::load_checkout(".");
  CHECK(checkout.diagnostics.error_count() == 0);
  check_golden(testing::golden_folder() / "validate" / "checkout.out", text_of(checkout));
}

TEST_CASE("validate: every rule about files has a file that breaks it and one that obeys it") {
  std::set<std::string> broken;
  std::set<std::string> of_pairs;  // rules about two revisions: ok pairs obey them
  for (const char* place : {"validate/err", "projects", "changelog"}) {
    const bool pairs = std::string_view(place) == "changelog";
    for (const fs::directory_entry& entry : fs::directory_iterator(testing::golden_folder() / place)) {
      if (entry.path().extension() != ".out") continue;
      const auto text = base::read_file(entry.path());
      REQUIRE(text.has_value());
      add_rules(*text, pairs ? of_pairs : broken);
    }
  }
  for (const diag::RuleInfo* rule : diag::rules()) {
    const std::string slug(rule->slug);
    if (!needs_golden(slug)) continue;
    INFO(slug);
    if (of_pairs.contains(slug)) continue;
    CHECK(broken.contains(slug));
    std::string name = slug;
    name.replace(name.find('/'), 1, "-");
    const fs::path ok = testing::golden_folder() / "validate" / "ok";
    CHECK((fs::exists(ok / (name + ".yaml")) || fs::exists(ok / (name + ".json"))));
  }
}

TEST_CASE("validate: the examples of explain break their rule, and obey it") {
  constexpr const char* kBase =
      "tiny:\n  image: lmsysorg/sglang:v1@sha256:abababababababababababababababababababababababababababababababab\n"
      "  model: example-org/Tiny\n  model-prefix: tiny\n  precision: fp8\n  framework: sglang\n  runner: h200\n"
      "  multinode: false\n";
  const auto scenario = [](const std::string& point) {
    return "  scenarios:\n    fixed-seq-len:\n      - isl: 1024\n        osl: 128\n        search-space:\n          "
           "- " +
           point + "\n";
  };
  const auto indented = [](std::string_view lines) {
    std::string out = "  ";
    for (const char c : lines) out += c == '\n' ? std::string("\n  ") : std::string(1, c);
    return out + "\n";
  };
  const std::string drafts = "  num-draft-tokens: 7\n";
  const auto file_of = [&](diag::ExamplePlace place, std::string_view lines) -> std::string {
    switch (place) {
      case diag::ExamplePlace::kPoint:
        return kBase + scenario(std::string(lines));
      case diag::ExamplePlace::kEntry:
        return kBase + indented(lines) + scenario("{ tp: 8, conc-list: [1] }");
      case diag::ExamplePlace::kResearch:
        return kBase + drafts + "  research-only: true\n  authorization: someone\n  deviations: [something]\n" +
               indented(lines) + scenario("{ tp: 8, spec-decoding: dspark, conc-list: [1] }");
      case diag::ExamplePlace::kChangelog:
        return std::string(lines);
    }
    return {};
  };
  const auto dir = base::TempDir::create();
  REQUIRE(dir.has_value());
  const auto reports = [&](const diag::RuleExample& example, std::string_view lines) {
    const fs::path file = dir->path() / "example.yaml";
    REQUIRE(base::write_file_atomic(file, file_of(example.place, lines)).has_value());
    const auto validation = schema::validate_paths(testing::golden_folder() / "validate", {file});
    return contains(text_of(validation), "[" + std::string(example.slug) + "]");
  };
  size_t count = 0;
  for (const diag::RuleInfo* rule : diag::rules()) {
    const diag::RuleExample* example = diag::find_example(rule->slug);
    if (example == nullptr) continue;
    ++count;
    INFO(rule->slug);
    CHECK(reports(*example, example->bad));
    CHECK_FALSE(reports(*example, example->good));
  }
  CHECK(count == diag::example_count());
}
