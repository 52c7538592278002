// Cases derived from public reports: what a good tool must say about each. Skipped where the data is not at hand.
#include <algorithm>
#include <map>

#include "orchestrator/schema/checkout.h"
#include "orchestrator/schema/points.h"
#include "tests/support/catch.h"
#include "tests/support/test_dir.h"

using namespace sweep;
namespace fs = std::filesystem;

namespace {

fs::path cases_folder() {
  const fs::path data = test::reference_data();
  return data.empty() ? fs::path() : data / "cases_from_reports";
}

struct Found {
  schema::Validation validation;

  size_t errors() const { return validation.diagnostics.error_count(); }

  // The diagnostics of a rule.
  std::vector<diag::Diagnostic> of(std::string_view slug) const {
    std::vector<diag::Diagnostic> found;
    for (const diag::Diagnostic& d : validation.diagnostics.items())
      if (diag::rule_info(d.rule).slug == slug) found.push_back(d);
    return found;
  }

  diag::Diagnostic only(std::string_view slug) const {
    const auto found = of(slug);
    INFO(slug);
    REQUIRE(found.size() == 1);
    return found.front();
  }
};

// Without a checkout around the files.
Found validate(std::initializer_list<std::string_view> names) {
  std::vector<fs::path> files;
  for (const std::string_view name : names) files.push_back(cases_folder() / name);
  return {schema::validate_paths({}, files)};
}

uint32_t line_of(const diag::Diagnostic& d) {
  return d.where ? d.where->line : 0;
}

}  // namespace

TEST_CASE("reports: a row with conc-list alone needs no range, and both rows give seven points") {
  if (cases_folder().empty()) SWEEP_SKIP("the reference data is not beside the checkout");
  CHECK(validate({"matrix_conc_list_and_range.yaml"}).errors() == 0);
  const auto checkout =
      schema::load_matrix_files({}, {.matrix_files = {cases_folder() / "matrix_conc_list_and_range.yaml"}});
  std::map<int64_t, std::vector<int64_t>> by_tp;
  for (const schema::PointView& view : schema::points_of(checkout.entries.at(0)))
    by_tp[*view.point->tp] = schema::concurrencies_of(*view.point);
  CHECK(by_tp == std::map<int64_t, std::vector<int64_t>>{{4, {1, 2, 4, 8, 16}}, {8, {4, 8}}});
}

TEST_CASE("reports: both forms of concurrencies are refused with entry, scenario and row") {
  if (cases_folder().empty()) SWEEP_SKIP("the reference data is not beside the checkout");
  const auto d = validate({"matrix_both_conc_forms.yaml"}).only("matrix/concurrency");
  for (const char* part : {"conc-list", "conc-start", "conc-end", "nimbusv4-fp4-b200-vllm", "1024/256"})
    CHECK(contains(d.message, part));
  CHECK(contains(d.path, "search-space[0]"));
}

TEST_CASE("reports: a duplicate key and two merge keys name both lines") {
  if (cases_folder().empty()) SWEEP_SKIP("the reference data is not beside the checkout");
  const auto key = validate({"matrix_duplicate_key_in_row.yaml"}).only("yaml/duplicate-key");
  CHECK(contains(key.message, "\"tp\""));
  CHECK(line_of(key) == 18);
  CHECK(key.notes.at(0).where->line == 14);
  const auto merge = validate({"matrix_merge_keys.yaml"}).only("yaml/duplicate-key");
  CHECK(line_of(merge) == 16);
  CHECK(merge.notes.at(0).where->line == 15);
}

TEST_CASE("reports: a version that would lose its zero, words and octals are asked for in plain form") {
  if (cases_folder().empty()) SWEEP_SKIP("the reference data is not beside the checkout");
  const auto version = validate({"matrix_version_read_as_float.yaml"}).only("schema/wrong-type");
  CHECK(contains(version.path, "router.version"));
  CHECK(contains(version.help, "\"1.10\""));
  const auto words = validate({"matrix_yaml11_words_and_octal.yaml"}).of("schema/wrong-type");
  REQUIRE(words.size() == 3);
  CHECK((contains(words[0].path, ".tp") && contains(words[0].help, "10") && contains(words[0].help, "8")));
  CHECK((contains(words[1].path, ".dp-attn") && contains(words[1].help, "false")));
  CHECK((contains(words[2].path, ".conc-end") && contains(words[2].help, "10")));
}

TEST_CASE("reports: only the disaggregated row without a transfer is named") {
  if (cases_folder().empty()) SWEEP_SKIP("the reference data is not beside the checkout");
  const Found found = validate({"matrix_disagg_without_transfer.yaml"});
  CHECK(contains(found.only("matrix/transfer-missing").path, "search-space[1]"));
  CHECK(found.errors() == 1);
}

TEST_CASE("reports: rows that do not fit are all named in one run") {
  if (cases_folder().empty()) SWEEP_SKIP("the reference data is not beside the checkout");
  const Found found = validate({"matrix_topology_does_not_fit.yaml"});
  const auto fit = found.only("matrix/gpus-do-not-fit");
  CHECK((contains(fit.message, "16 GPUs") && contains(fit.message, "8 GPUs") && contains(fit.path, "search-space[0]")));
  CHECK(contains(found.only("matrix/parallelism").path, "search-space[1].dcp-size"));
  const auto ranks = found.only("matrix/expert-ranks");
  CHECK((contains(ranks.message, "\"ep\" 8") && contains(ranks.message, "4 ranks")));
  CHECK(found.errors() == 2);
}

TEST_CASE("reports: 264 points are valid by themselves") {
  if (cases_folder().empty()) SWEEP_SKIP("the reference data is not beside the checkout");
  CHECK(validate({"matrix_above_256.yaml"}).errors() == 0);
  const auto checkout = schema::load_matrix_files({}, {.matrix_files = {cases_folder() / "matrix_above_256.yaml"}});
  size_t points = 0;
  for (const schema::MatrixEntry& entry : checkout.entries)
    for (const schema::PointView& view : schema::points_of(entry))
      points += schema::concurrencies_of(*view.point).size();
  CHECK(points == 264);
}

TEST_CASE("reports: two images are named with both files and fields") {
  if (cases_folder().empty()) SWEEP_SKIP("the reference data is not beside the checkout");
  const auto d = validate({"bind_image/matrix.yaml", "bind_image/recipe.yaml"}).only("binding/image-mismatch");
  for (const char* part : {"vllm:v0.27.1", "vllm:v0.26.3", "\"image\"", "model.container", "bind_image/recipe.yaml"})
    CHECK(contains(d.message, part));
  CHECK(contains(d.where->file, "bind_image/matrix.yaml"));
  CHECK(contains(d.notes.at(0).where->file, "bind_image/recipe.yaml"));
}

TEST_CASE("reports: an FP4 expert path on H200 is refused with what is available there") {
  if (cases_folder().empty()) SWEEP_SKIP("the reference data is not beside the checkout");
  const auto d = validate({"recipe_fp4_on_h200.yaml"}).only("capability/fp4-backend");
  CHECK((contains(d.message, "h200") && contains(d.message, "9.0")));
  for (const char* part : {"marlin", "fp8", "research-only", "not an official"}) CHECK(contains(d.help, part));
}

TEST_CASE("reports: a count of drafts written as an acceptance length is an error where the target is stated") {
  if (cases_folder().empty()) SWEEP_SKIP("the reference data is not beside the checkout");
  const auto d = validate({"recipe_trtllm_off_by_one.yaml"}).only("acceptance/counts-drafts-only");
  CHECK(d.severity == diag::Severity::kError);
  CHECK(contains(d.message, "commits 6.7"));
  CHECK(contains(d.help, "5.7 write 4.7"));
}

TEST_CASE("reports: adaptive verification cannot guarantee a forced length") {
  if (cases_folder().empty()) SWEEP_SKIP("the reference data is not beside the checkout");
  const auto d = validate({"recipe_adaptive_and_forced.yaml"}).only("acceptance/forced-with-adaptive");
  CHECK(contains(d.message, "5.7"));
}

TEST_CASE("reports: a lock file on a branch, with an empty digest and one that is too short, has three findings") {
  if (cases_folder().empty()) SWEEP_SKIP("the reference data is not beside the checkout");
  const Found found = validate({"lock_branch_name.json"});
  CHECK(found.errors() == 3);
  const auto malformed = found.of("schema/malformed-text");
  REQUIRE(malformed.size() == 2);
  CHECK((malformed[0].path == "revision" && contains(malformed[0].message, "40 hexadecimal digits")));
  CHECK((contains(malformed[1].path, "model-00001-of-00003.safetensors") && contains(malformed[1].message, "64")));
  CHECK(found.only("schema/out-of-range").path == "files.tokenizer.json.sha256");
}

TEST_CASE("reports: a lock file that names a revision and no file is told what it lacks") {
  if (cases_folder().empty()) SWEEP_SKIP("the reference data is not beside the checkout");
  const auto d = validate({"hub_mixed_revisions/lock.json"}).only("schema/missing-field");
  CHECK(contains(d.message, "lacks the field \"files\""));
}

TEST_CASE("reports: an unknown key of a cluster file is an error with its line") {
  if (cases_folder().empty()) SWEEP_SKIP("the reference data is not beside the checkout");
  const auto d = validate({"cluster_unknown_key.yaml"}).only("schema/unknown-field");
  CHECK(d.severity == diag::Severity::kError);
  CHECK(contains(d.message, "default_container"));
  CHECK(line_of(d) == 4);
}
