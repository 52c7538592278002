#include "orchestrator/plan/rows.h"

#include <nlohmann/json.hpp>

#include "orchestrator/yaml/parse.h"
#include "tests/support/catch.h"
#include "tests/unit/plan/repository.h"

using namespace sweep;
using nlohmann::json;
using test::repository;

namespace {

// A checkout of one entry whose single-node search space is given.
schema::Checkout checkout_of(const std::string& search_space) {
  schema::Checkout checkout;
  const schema::DocumentPtr document = yaml::parse(
      "x.yaml",
      "e:\n  image: i\n  model: m\n  model-prefix: p\n  precision: fp8\n  framework: sglang\n  runner: h200\n"
      "  multinode: false\n  scenarios: { fixed-seq-len: [{ isl: 8192, osl: 1024, search-space: [" +
          search_space + "] }] }\n",
      checkout.diagnostics);
  REQUIRE(document);
  checkout.entries = schema::decode_matrix(document, checkout.diagnostics);
  REQUIRE(checkout.diagnostics.empty());
  return checkout;
}

std::vector<int64_t> concurrencies(const plan::MatrixRows& rows) {
  std::vector<int64_t> values;
  for (const json& row : json::parse(rows.json)) values.push_back(row["conc"].get<int64_t>());
  return values;
}

}  // namespace

TEST_CASE("rows: our entries carry the peer's fields and what the peer cannot say") {
  const plan::MatrixRows rows = plan::test_config(repository(), {.config_keys = {"dsv41flash-fp8-h200-sglang-dspark"}});
  REQUIRE(rows.count == 1);
  const json row = json::parse(rows.json)[0];
  CHECK(row["exp-name"] == "dsv41flash_8192_256");
  CHECK(row["max-model-len"] == 8192 + 256 + 256);
  CHECK(row["tp"] == 8);
  CHECK(row["spec-decoding"] == "dspark");
  CHECK(row["research-only"] == true);
  CHECK(row["acceptance"]["length"] == 5.7);
  CHECK_FALSE(row.contains("status"));
}

TEST_CASE("rows: in-progress entries are marked") {
  const plan::MatrixRows rows = plan::test_config(repository(), {.config_keys = {"*-32gpu"}});
  REQUIRE(rows.count == 3);
  for (const json& row : json::parse(rows.json)) CHECK(row["status"] == "in-progress");
}

TEST_CASE("rows: limits cut a list and a range as the peer does") {
  const schema::Checkout range = checkout_of("{ tp: 8, conc-start: 4, conc-end: 50 }");
  CHECK(concurrencies(plan::full_sweep(range, {.step_size = 3})) == std::vector<int64_t>{4, 12, 36, 50});
  CHECK(concurrencies(plan::full_sweep(range, {.min_conc = 10, .max_conc = 30})) == std::vector<int64_t>{10, 20, 30});
  CHECK(concurrencies(plan::full_sweep(range, {.max_conc = 2})) == std::vector<int64_t>{2});
  CHECK(plan::full_sweep(range, {.min_conc = 64}).count == 0);
  const schema::Checkout list = checkout_of("{ tp: 8, conc-list: [1, 8, 64] }");
  CHECK(concurrencies(plan::full_sweep(list, {.min_conc = 2})) == std::vector<int64_t>{8, 64});
  CHECK(plan::full_sweep(list, {.max_tp = 4}).count == 0);
}

TEST_CASE("rows: the highest and the middle concurrency of 8k1k points are evaluated") {
  const schema::Checkout checkout = checkout_of("{ tp: 8, conc-list: [1, 16, 32, 64, 128] }");
  std::vector<int64_t> marked;
  for (const json& row : json::parse(plan::full_sweep(checkout, {}).json))
    if (row["run-eval"] == true) marked.push_back(row["conc"].get<int64_t>());
  CHECK(marked == std::vector<int64_t>{64, 128});
  const plan::MatrixRows only = plan::full_sweep(checkout, {.filter = {.evals = plan::Evals::kOnly}});
  CHECK(only.count == 2);
  CHECK(json::parse(only.json)[0]["eval-only"] == true);
}

TEST_CASE("rows: filters that match nothing are reported, not taken for success") {
  const plan::MatrixRows rows = plan::full_sweep(repository(), {.precisions = {"fp2"}});
  CHECK(rows.json == "[]");
  CHECK(rows.diagnostics.warning_count() == 2);  // the value matches nothing, and no row is left
}

TEST_CASE("rows: unknown keys and runner types are answered with the nearest name") {
  const auto key = plan::test_config(repository(), {.config_keys = {"embeded-dspark-8k256"}});
  REQUIRE(key.diagnostics.error_count() == 1);
  CHECK(contains(key.diagnostics.items()[0].help, "embedded-dspark-8k256"));
  const auto type = plan::full_sweep(repository(), {.runner_types = {"h20"}});
  REQUIRE(type.diagnostics.error_count() == 1);
  CHECK(contains(type.diagnostics.items()[0].help, "h200"));
}
