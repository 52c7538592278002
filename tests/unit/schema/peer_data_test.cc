// The closest peer's own files: nothing crashes, and what is found is right. Skipped where the data is not at hand.
#include <map>

#include "orchestrator/schema/checkout.h"
#include "tests/support/catch.h"
#include "tests/support/test_dir.h"

using namespace sweep;
namespace fs = std::filesystem;

namespace {

fs::path peer_folder() {
  const fs::path data = test::reference_data();
  return data.empty() ? fs::path() : data / "inferencex";
}

std::map<std::string, size_t> count_by_rule(const diag::Diagnostics& out) {
  std::map<std::string, size_t> counts;
  for (const diag::Diagnostic& d : out.items()) ++counts[std::string(diag::rule_info(d.rule).slug)];
  return counts;
}

}  // namespace

TEST_CASE("peer data: both master files decode, and what is found in them is right") {
  const fs::path peer = peer_folder();
  if (peer.empty()) SWEEP_SKIP("the peer's data is not beside the checkout");
  const auto validation = schema::validate_paths(
      SWEEP_SOURCE_DIR,
      {peer / "configs/nvidia-master.yaml", peer / "configs/amd-master.yaml", peer / "configs/runners.yaml"});
  const auto counts = count_by_rule(validation.diagnostics);
  CHECK(counts.at("matrix/unknown-runner") == 8);
  CHECK(validation.diagnostics.error_count() == 24);
  // Its sample recipes stand beside the files: 23 of 465 references can be opened, and are right but for these.
  CHECK(counts.at("binding/gpu-count-mismatch") == 4);     // tp 1 with ep 8 stands for eight GPUs
  CHECK(counts.at("binding/parallelism-mismatch") == 1);   // dcp-size 8 is not stated
  CHECK(counts.at("acceptance/not-golden") == 1);          // the length of three drafts with two
  CHECK(counts.at("binding/recipe-missing") == 11);        // folders of which only samples are here
  CHECK(counts.at("binding/recipe-elsewhere") == 1);       // 283 references
  CHECK_FALSE(counts.contains("binding/image-mismatch"));  // aliases aside, all containers are the entries' images
  CHECK(counts.contains("matrix/image-unpinned"));
  // 20 pairs of rows share a result name, 5 of them are the same job (InferenceX, full-sweep over both files).
  CHECK(counts.at("matrix/duplicate-point") == 3);
  CHECK(counts.at("matrix/result-name") == 15);
}

TEST_CASE("peer data: sample recipes and golden curves validate") {
  const fs::path peer = peer_folder();
  if (peer.empty()) SWEEP_SKIP("the peer's data is not beside the checkout");
  const auto recipes = schema::validate_paths(SWEEP_SOURCE_DIR, {peer / "benchmarks"});
  CHECK(recipes.files == 28);
  CHECK(recipes.diagnostics.error_count() == 0);
  const auto curves = schema::validate_paths(SWEEP_SOURCE_DIR, {peer / "golden_al_distribution"});
  CHECK(curves.files == 9);
  CHECK(curves.diagnostics.error_count() == 0);
}
