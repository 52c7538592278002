#include "orchestrator/schema/checkout.h"

#include "orchestrator/base/file.h"
#include "orchestrator/base/temp_dir.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/matrix.h"
#include "orchestrator/diag/rules/schema.h"
#include "tests/support/catch.h"
#include "tests/support/test_dir.h"

using namespace sweep;
using diag::RuleId;
namespace rule = diag::rule;
namespace fs = std::filesystem;

namespace {

bool has(const diag::Diagnostics& out, RuleId rule) {
  for (const diag::Diagnostic& d : out.items())
    if (d.rule == rule) return true;
  return false;
}

class Folder {
 public:
  void write(const std::string& name, std::string_view text) {
    const fs::path path = dir_.path() / name;
    REQUIRE(base::make_directories(path.parent_path()).has_value());
    REQUIRE(base::write_file_atomic(path, text).has_value());
  }
  const fs::path& path() const { return dir_.path(); }

 private:
  base::TempDir dir_ = std::move(base::TempDir::create().value());
};

}  // namespace

TEST_CASE("checkout: the repository's own entries are found with their recipes and pins") {
  const schema::Checkout checkout = schema::load_checkout(SWEEP_SOURCE_DIR);
  CHECK_FALSE(checkout.diagnostics.has_errors());
  const schema::MatrixEntry* entry = checkout.find_entry("dsv41flash-fp4-b200-sglang-dspark");
  REQUIRE(entry != nullptr);
  CHECK(schema::find_recipe_variant(checkout, *entry->recipe) != nullptr);
  CHECK(checkout.find_pin(*entry->model, *entry->revision) != nullptr);
  CHECK(entry->research_only.value);
}

TEST_CASE("validate: a file that does not exist or is a folder without files is reported or empty") {
  const Folder folder;
  const auto missing = schema::validate_paths(folder.path(), {folder.path() / "none.yaml"});
  CHECK(has(missing.diagnostics, rule::file_unreadable));
  CHECK(schema::validate_paths(folder.path(), {folder.path()}).diagnostics.empty());
  CHECK(schema::validate_paths(folder.path() / "none", {}).files == 0);
}

TEST_CASE("validate: a huge file is refused without being read") {
  Folder folder;
  folder.write("big.yaml", std::string(9u << 20, 'a'));
  CHECK(has(schema::validate_paths(folder.path(), {folder.path() / "big.yaml"}).diagnostics, rule::file_too_large));
}

TEST_CASE("validate: of a run folder only the result is judged, however the folder is named") {
  Folder folder;
  const auto result = base::read_file(fs::path(SWEEP_SOURCE_DIR) / "tests/golden/validate/ok/result-verdict.json");
  REQUIRE(result.has_value());
  folder.write("run/result.json", *result);
  folder.write("run/weights.json", "{\"schema_version\": 1, \"files\": []}");
  folder.write("run/attempt-1/engine.json", "{\"schema_version\": 1, \"name\": \"embedded\"}");
  for (const char* name : {"run", "run/", "."}) {
    const auto validation = schema::validate_paths(folder.path(), {folder.path() / name});
    CHECK(validation.files == 1);
    CHECK(validation.diagnostics.empty());
  }
  folder.write("run/result.json", result->substr(0, result->size() - 3) + ", \"extra\": 1}");
  const auto broken = schema::validate_paths(folder.path(), {folder.path() / "run/"});
  REQUIRE(has(broken.diagnostics, rule::schema_unknown_field));
  CHECK(broken.diagnostics.items().front().where->file == (folder.path() / "run/result.json").string());
}

TEST_CASE("validate: --kind overrides what the content looks like") {
  Folder folder;
  folder.write("x.yaml", "labels: { a: [b] }\n");
  const fs::path file = folder.path() / "x.yaml";
  CHECK(schema::validate_paths(folder.path(), {file}).diagnostics.empty());
  CHECK(has(schema::validate_paths(folder.path(), {file}, schema::FileKind::kRecipe).diagnostics,
            rule::schema_unknown_field));
}

TEST_CASE("validate: only the named files are reported, bindings to the checkout included") {
  Folder folder;
  folder.write("matrix/bad.yaml", "e: { image: x, runner: h200, scenarios: 5 }\n");
  folder.write("matrix/runners.yaml", "labels: { h200: [n] }\n");
  folder.write(
      "one.yaml",
      "one: { image: none, model: m, model-prefix: m, precision: fp8, framework: sglang, runner: b200, multinode: "
      "false, scenarios: { fixed-seq-len: [{ isl: 1, osl: 1, search-space: [{ tp: 1, conc-list: [1] }] }] } }\n");
  const auto validation = schema::validate_paths(folder.path(), {folder.path() / "one.yaml"});
  REQUIRE(validation.diagnostics.items().size() == 1);
  CHECK(validation.diagnostics.items()[0].rule == rule::matrix_unknown_runner);
}

TEST_CASE("validate: an empty matrix file is told from its place") {
  Folder folder;
  folder.write("matrix/empty.yaml", "");
  const auto validation = schema::validate_paths(folder.path(), {});
  REQUIRE(validation.diagnostics.items().size() == 1);
  CHECK(validation.diagnostics.items()[0].rule == rule::schema_wrong_type);
}

TEST_CASE("recipe references: a selector follows the last colon") {
  const auto parsed = schema::parse_recipe_reference("recipes/x.yaml:zip_override_a[1]");
  CHECK(parsed.path == "recipes/x.yaml");
  CHECK(parsed.selector == "zip_override_a[1]");
  CHECK(schema::parse_recipe_reference("recipes/x.yaml").selector.empty());
}

TEST_CASE("validate: a matrix file and one recipe named together are bound") {
  Folder folder;
  folder.write("m.yaml",
               "one: { image: 'x:1@sha256:" + std::string(64, 'a') +
                   "', model: m, model-prefix: m, precision: fp8, framework: sglang, runner: h200, multinode: false, "
                   "scenarios: { fixed-seq-len: [{ isl: 1, osl: 1, search-space: [{ tp: 8, conc-list: [1] }] }] } }\n");
  folder.write("r.yaml",
               "name: r\nmodel: { path: m, container: 'x:2', precision: fp8 }\n"
               "resources: { gpu_type: h200, gpus_per_node: 8 }\n");
  const auto both = schema::validate_paths(folder.path(), {folder.path() / "m.yaml", folder.path() / "r.yaml"});
  REQUIRE(both.diagnostics.items().size() == 1);
  CHECK(both.diagnostics.items()[0].rule == rule::binding_image_mismatch);
  CHECK(schema::validate_paths(folder.path(), {folder.path() / "m.yaml"}).diagnostics.empty());
}

TEST_CASE("validate: files of another project are held to their rules, not to this checkout's policy") {
  const sweep::test::TestDir own;
  const sweep::test::TestDir other;
  own.write("matrix/runners.yaml", "labels: { h200: [h200_0] }\n");
  own.write("recipes/r.yaml",
            "name: r\nmodel: { path: m, container: c, precision: fp8 }\nresources: { gpu_type: h200 }\n");
  const std::string entry =
      "e:\n  image: none\n  model: deepseek-ai/DeepSeek-V4-Pro\n  model-prefix: p\n  precision: fp8\n  framework: "
      "vllm\n"
      "  runner: far\n  multinode: false\n  scenarios: { fixed-seq-len: [{ isl: 1, osl: 1, search-space: [{ tp: 8, "
      "conc-list: [1] }] }] }\n";
  const auto inside = schema::validate_paths(own.path(), {own.write("matrix/x.yaml", entry)});
  CHECK(inside.diagnostics.error_count() == 1);  // the runner
  const auto outside = schema::validate_paths(own.path(), {other.write("x.yaml", entry)});
  CHECK(outside.diagnostics.error_count() == 0);
  CHECK(outside.diagnostics.warning_count() == 1);
}
