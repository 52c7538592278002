// Rules over rows: each with a matrix that keeps it and one that breaks it.
#include "orchestrator/plan/expand.h"
#include "orchestrator/plan/rows.h"
#include "tests/unit/plan/small_matrix.h"

using namespace sweep;
using namespace sweep::test;
using Slugs = std::vector<std::string>;

namespace {

constexpr const char* kPoint = "- { tp: 8, ep: 8, conc-list: [4, 16, 64] }\n";

Slugs warnings_of(const std::string& matrix, const plan::FullSweep& options = {}) {
  return slugs(plan::full_sweep(small_checkout(matrix), options).diagnostics, diag::Severity::kWarning);
}

}  // namespace

TEST_CASE("rows: a limit that becomes a concurrency is reported once, with its count") {
  CHECK(warnings_of(kMatrix, {.max_conc = 64}) == Slugs{});
  CHECK(warnings_of(kMatrix, {.max_conc = 32}) == Slugs{});  // cuts a list down
  CHECK(warnings_of(kMatrix, {.max_conc = 3}) == Slugs{"plan/invented-concurrency"});
  const std::string range = with(kMatrix, "conc-list: [4, 16, 64]", "conc-start: 4, conc-end: 64");
  CHECK(warnings_of(range, {.max_conc = 32}) == Slugs{});
  CHECK(warnings_of(range, {.max_conc = 33}) == Slugs{"plan/invented-concurrency"});
  CHECK(warnings_of(range, {.min_conc = 5}) == Slugs{"plan/invented-concurrency"});
}

TEST_CASE("rows: a filter value that matches nothing is reported beside ones that do") {
  CHECK(warnings_of(kMatrix, {.precisions = {"fp8", "fp4"}}) == Slugs{});
  CHECK(warnings_of(kMatrix, {.precisions = {"fp8", "fp16"}}) == Slugs{"plan/filter-matches-nothing"});
  CHECK(warnings_of(kMatrix, {.model_prefixes = {"sin"}}) == Slugs{});
  CHECK(warnings_of(kMatrix, {.model_prefixes = {"m", "x"}}) == Slugs{"plan/filter-matches-nothing"});
  CHECK(warnings_of(kMatrix, {.frameworks = {"vllm", "vlm"}}) == Slugs{"plan/filter-matches-nothing"});
  CHECK(warnings_of(kMatrix, {.runner_types = {"gb200", "h200"}}) == Slugs{"plan/filter-matches-nothing"});
}

TEST_CASE("rows: more rows than one matrix may have are reported, unless they are split") {
  std::string list = "[1";
  for (int i = 2; i <= 260; ++i) list += ", " + std::to_string(i);
  const std::string matrix = with(kMatrix, "[4, 16, 64]", list + "]");
  CHECK(warnings_of(matrix) == Slugs{"plan/matrix-limit"});
  const auto split = plan::full_sweep(small_checkout(matrix), {.filter = {.into_buckets = true}});
  CHECK(split.diagnostics.empty());
  REQUIRE(split.buckets.size() == 3);
  CHECK(split.buckets[0].name == "single_node/8k1k");
  CHECK(split.buckets[0].rows.size() == 260);
}

TEST_CASE("rows: host memory for offloading is computed, or the missing fact is named") {
  const auto error = [](const std::string& matrix, const std::string& runners) {
    return slugs(plan::full_sweep(small_checkout(matrix, runners), {}).diagnostics, diag::Severity::kError);
  };
  CHECK(contains(plan::full_sweep(small_checkout(), {}).json, "\"total-cpu-dram-gb\": 1676"));
  CHECK(error(kMatrix, kRunners) == Slugs{});
  CHECK(error(kMatrix, with(kRunners, "  cluster:h200-x: { avail", "  cluster:other: { avail")) ==
        Slugs{"plan/dram-budget"});
  CHECK(error(with(kMatrix, "- { tp: 8, kv", "- { tp: 16, kv"), kRunners) == Slugs{"plan/dram-budget"});
}

TEST_CASE("rows: agentic scenarios give rows, and a note where jobs are asked for") {
  const plan::Plan plan = plan::expand(small_checkout(), {.entries = {"single"}});
  CHECK(slugs(plan.diagnostics, diag::Severity::kNote) == Slugs{"plan/agentic-not-run"});
  CHECK(plan.jobs.size() == 3);
  CHECK(slugs(plan::expand(small_checkout(), {.entries = {"multi"}}).diagnostics, diag::Severity::kNote) == Slugs{});
}
