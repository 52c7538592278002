// The committed schemas for editors and the reference parts of the folders' pages are what the tables say.
#include "orchestrator/base/file.h"
#include "orchestrator/schema/json_schema.h"
#include "orchestrator/schema/reference.h"
#include "orchestrator/yaml/parse.h"
#include "tests/golden/golden.h"
#include "tests/support/catch.h"

namespace fs = std::filesystem;
using namespace sweep;
using schema::FileKind;

namespace {

const fs::path kSource = SWEEP_SOURCE_DIR;
constexpr const char* kAdvice =
    "made from the field tables; write them again with SWEEPCTL_UPDATE_GOLDENS=1 golden_test \"reference*\"";

std::string begin_mark(FileKind kind) {
  return "<!-- begin: sweepctl schema " + std::string(schema::choice_name(kind)) + " --markdown -->\n";
}
constexpr const char* kEndMark = "<!-- end -->\n";

// The page with its generated parts made anew.
std::string renewed(std::string page, const std::vector<FileKind>& kinds) {
  for (const FileKind kind : kinds) {
    const std::string mark = begin_mark(kind);
    INFO("mark " << mark);
    const size_t begin = page.find(mark);
    REQUIRE(begin != std::string::npos);
    const size_t end = page.find(kEndMark, begin);
    REQUIRE(end != std::string::npos);
    page.replace(begin + mark.size(), end - begin - mark.size(), "\n" + schema::reference_page(kind, 3) + "\n");
  }
  return page;
}

}  // namespace

TEST_CASE("reference: the committed JSON Schemas are up to date") {
  INFO(kAdvice);
  size_t kinds = 0;
  for (const std::string_view name : schema::ChoiceNames<FileKind>::kNames) {
    testing::check_golden(kSource / "matrix/schema" / (std::string(name) + ".schema.json"),
                          schema::json_schema_text(static_cast<FileKind>(kinds)));
    ++kinds;
  }
  for (const auto& file : fs::directory_iterator(kSource / "matrix/schema")) {
    INFO(file.path().string());
    CHECK(kinds-- > 0);  // no file of a kind that there is no more
  }
}

TEST_CASE("reference: the committed pages are up to date") {
  INFO(kAdvice);
  const std::vector<std::pair<const char*, std::vector<FileKind>>> pages{
      {"matrix/README.md", {FileKind::kMatrix, FileKind::kRunners, FileKind::kAcceptance, FileKind::kPin}},
      {"recipes/README.md", {FileKind::kRecipe, FileKind::kCluster}},
      {"changelog/README.md", {FileKind::kChangelog}}};
  for (const auto& [name, kinds] : pages) {
    INFO(name);
    const auto page = base::read_file(kSource / name);
    REQUIRE(page.has_value());
    testing::check_golden(kSource / name, renewed(*page, kinds));
  }
}

TEST_CASE("reference: our own files name the schema of their kind for editors") {
  constexpr std::string_view kModeline = "# yaml-language-server: $schema=";
  size_t count = 0;
  for (const char* folder : {"matrix", "recipes"}) {
    for (const auto& item : fs::recursive_directory_iterator(kSource / folder)) {
      if (item.path().extension() != ".yaml") continue;
      ++count;
      INFO(item.path().string());
      const auto text = base::read_file(item.path());
      REQUIRE(text.has_value());
      const std::string line = text->substr(0, text->find('\n'));
      REQUIRE(line.starts_with(kModeline));
      const fs::path schema = item.path().parent_path() / line.substr(kModeline.size());
      diag::Diagnostics out;
      const auto document = yaml::parse("x.yaml", *text, out);
      REQUIRE(document != nullptr);
      const auto kind = schema::find_kind(document->root(), item.path().string());
      REQUIRE(kind.has_value());
      CHECK(
          fs::weakly_canonical(schema) ==
          fs::weakly_canonical(kSource / "matrix/schema" / (std::string(schema::choice_name(*kind)) + ".schema.json")));
    }
  }
  CHECK(count > 5);
}
