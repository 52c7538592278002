#include "orchestrator/plan/summary.h"

#include "tests/unit/plan/small_matrix.h"

using namespace sweep;
using namespace sweep::test;

namespace {

plan::MatrixSummary against(const std::string& base, const std::string& head) {
  const schema::Checkout before = small_checkout(base);
  const schema::Checkout after = small_checkout(head);
  return plan::summarise(after, &before);
}

}  // namespace

TEST_CASE("summary: jobs, points and GPUs are counted per runner") {
  const plan::MatrixSummary summary = plan::summarise(small_checkout(), nullptr);
  CHECK(summary.entries == 2);
  CHECK(summary.jobs == 6);
  CHECK(summary.points == 7);  // the multi-node job has two
  REQUIRE(summary.runners.size() == 2);
  CHECK(summary.runners[0].runner == "cluster:h200-x");
  CHECK(summary.runners[0].gpu_type == "h200");
  CHECK(summary.runners[0].most_gpus == 8);
  CHECK(summary.runners[1].most_gpus == 20);
  CHECK(summary.runners[1].jobs_with_limit == 0);
  CHECK_FALSE(summary.has_base);
}

TEST_CASE("summary: added, removed and changed points are told apart") {
  const auto same = against(kMatrix, kMatrix);
  CHECK(same.has_base);
  CHECK(same.changes.empty());
  const auto points = against(kMatrix, with(kMatrix, "[4, 16, 64]", "[4, 64, 128]"));
  REQUIRE(points.changes.size() == 1);
  CHECK(points.changes[0].recipe == "8k1k tp8 ep8");
  CHECK(points.changes[0].added == std::vector<int64_t>{128});
  CHECK(points.changes[0].removed == std::vector<int64_t>{16});
  CHECK(points.changes[0].fields.empty());
  const auto image = against(kMatrix, with(kMatrix, "img:2", "img:9"));
  REQUIRE(image.changes.size() == 1);
  CHECK(image.changes[0].entry == "multi");
  CHECK(image.changes[0].recipe == "8k1k p1xtp4ep4dpa d2xtp8ep8dpa");
  CHECK(image.changes[0].changed == std::vector<int64_t>{16, 64});
  REQUIRE(image.changes[0].fields.size() == 1);
  CHECK(image.changes[0].fields[0].path == "image");
  CHECK(image.changes[0].fields[0].after == "\"img:9\"");
  CHECK(image.totals.changed == 2);
}

TEST_CASE("summary: a removed entry and a new one are points, not changes") {
  const auto summary = against(kMatrix, with(kMatrix, "multi:\n", "other:\n"));
  CHECK(summary.totals.added == 2);
  CHECK(summary.totals.removed == 2);
  CHECK(summary.totals.changed == 0);
}

TEST_CASE("summary: entries in progress are open, and their jobs not counted as dispatched") {
  const auto summary = plan::summarise(
      small_checkout(with(kMatrix, "runner: gb200\n", "runner: gb200\n  status: in-progress\n")), nullptr);
  CHECK(summary.in_progress == 1);
  CHECK(summary.jobs == 5);
  REQUIRE(summary.open.size() == 1);
  CHECK(summary.open[0].entry == "multi");
}

TEST_CASE("summary: recipes that workers name and that are elsewhere are open") {
  const auto summary =
      plan::summarise(small_checkout(with(kMatrix, "dp-attn: true }",
                                          "dp-attn: true, additional-settings: [CONFIG_FILE=recipes/a.yaml] }")),
                      nullptr);
  REQUIRE(summary.open.size() == 1);
  CHECK(summary.open[0].recipes == std::vector<std::string>{"recipes/a.yaml"});
}

TEST_CASE("summary: time limits are read in all of Slurm's forms, and nothing is invented") {
  CHECK(plan::time_limit_minutes("30") == 30);
  CHECK(plan::time_limit_minutes("30:30") == 30.5);
  CHECK(plan::time_limit_minutes("02:00:00") == 120);
  CHECK(plan::time_limit_minutes("1-12") == 36 * 60);
  CHECK(plan::time_limit_minutes("1-12:30") == 36 * 60 + 30);
  CHECK(plan::time_limit_minutes("1-12:30:30") == 36 * 60 + 30.5);
  for (const char* text : {"", "0", "UNLIMITED", "-1", "1:2:3:4", "1-", "a:b", "1e3", "99999999999999999999"}) {
    INFO(text);
    CHECK_FALSE(plan::time_limit_minutes(text).has_value());
  }
}
