// Files and small checkouts with the exact text that `validate` says about them.
#include <set>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/render.h"
#include "orchestrator/schema/checkout.h"
#include "tests/golden/golden.h"
#include "tests/support/catch.h"

namespace fs = std::filesystem;
using namespace sweep;
using testing::check_golden;
using testing::configuration_files;
using testing::CurrentFolder;

namespace {

// Rules whose files would be too large to keep; their tests build them.
const std::set<std::string> kTestedElsewhere{"yaml/too-large"};

const std::set<std::string> kFamilies{"yaml",
                                      "schema",
                                      "recipe",
                                      "matrix",
                                      "acceptance",
                                      "research",
                                      "binding",
                                      "capability",
                                      "changelog",
                                      "runners",
                                      "result",
                                      "weights/pin-incomplete"};

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
    CHECK(text_of(schema::validate_paths("root", {file})) == "");
  }
}

TEST_CASE("validate: files that are wrong give exactly the expected text") {
  const CurrentFolder folder(testing::golden_folder() / "validate");
  const auto files = configuration_files(fs::path("err"));
  REQUIRE(!files.empty());
  for (const fs::path& file : files) {
    INFO(file.string());
    const std::string text = text_of(schema::validate_paths("root", {file}));
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
  for (const char* place : {"validate/err", "projects"}) {
    for (const fs::directory_entry& entry : fs::directory_iterator(testing::golden_folder() / place)) {
      if (entry.path().extension() != ".out") continue;
      const auto text = base::read_file(entry.path());
      REQUIRE(text.has_value());
      add_rules(*text, broken);
    }
  }
  for (const diag::RuleInfo* rule : diag::rules()) {
    const std::string slug(rule->slug);
    const std::string family = slug.substr(0, slug.find('/'));
    if (!kFamilies.contains(family) && !kFamilies.contains(slug)) continue;
    if (kTestedElsewhere.contains(slug)) continue;
    INFO(slug);
    CHECK(broken.contains(slug));
    std::string name = slug;
    name.replace(name.find('/'), 1, "-");
    const fs::path ok = testing::golden_folder() / "validate" / "ok";
    CHECK((fs::exists(ok / (name + ".yaml")) || fs::exists(ok / (name + ".json"))));
  }
}
