#include "orchestrator/plan/expand.h"

#include "orchestrator/diag/rules/matrix.h"
#include "orchestrator/schema/checkout.h"
#include "tests/support/catch.h"
#include "tests/unit/plan/repository.h"

using namespace sweep;
using test::repository;
namespace rule = diag::rule;

namespace {

const plan::Setting* find(const std::vector<plan::Setting>& settings, std::string_view name) {
  for (const plan::Setting& setting : settings)
    if (setting.name == name) return &setting;
  return nullptr;
}

}  // namespace

TEST_CASE("expand: the embedded entry is one research-only job without GPUs and with ten requests") {
  const plan::Plan plan = plan::expand(repository(), {.entries = {"embedded-dspark-8k256"}});
  REQUIRE(plan.jobs.size() == 1);
  const plan::Job& job = plan.jobs[0];
  CHECK(job.framework == "embedded");
  CHECK(job.runner == "local");
  CHECK(job.image.empty());
  CHECK(job.gpus == 0);
  CHECK(job.isl == 8192);
  CHECK(job.osl == 256);
  CHECK(job.concurrency == 1);
  CHECK(job.requests == 10);
  CHECK(job.num_draft_tokens == 7);
  CHECK(job.acceptance.source == plan::AcceptanceSource::kExplicit);
  CHECK(*job.acceptance.length == Approx(5.7));
  CHECK(job.research_only);
  CHECK_FALSE(job.authorization.empty());
  CHECK(job.status == plan::Status::kReady);
  CHECK(job.pin == "matrix/models/embedded-mla-8h.json");
}

TEST_CASE("expand: an embedded entry on a runner with GPUs uses those that it names") {
  const plan::Plan plan = plan::expand(repository(), {.entries = {"embedded-v4flashx2-h200-tp2-dspark"}});
  REQUIRE(plan.jobs.size() == 1);
  CHECK(plan.jobs[0].gpus == 2);
  CHECK(plan.jobs[0].tp == 2);
}

TEST_CASE("expand: flags and environment of the recipe reach the job, without acceptance control") {
  const plan::Plan plan = plan::expand(repository(), {.entries = {"dsv41flash-fp8-h200-sglang-dspark"}});
  REQUIRE(plan.jobs.size() == 1);
  const plan::Job& job = plan.jobs[0];
  CHECK(job.gpus == 8);
  CHECK(job.tp == 8);
  REQUIRE(find(job.engine_flags, "speculative-dspark-block-size") != nullptr);
  CHECK(find(job.engine_flags, "speculative-dspark-block-size")->value == "7");
  CHECK(find(job.engine_flags, "disable-radix-cache")->is_switch);
  CHECK_FALSE(find(job.engine_flags, "tp-size")->is_switch);
  CHECK(find(job.environment, "SGLANG_RAGGED_VERIFY_MODE")->value == "static");
  CHECK(find(job.environment, "SGLANG_SIMULATE_ACC_LEN") == nullptr);
}

TEST_CASE("expand: in-progress entries are planned and marked") {
  const plan::Plan plan = plan::expand(repository(), {.entries = {"*-32gpu"}});
  REQUIRE(plan.jobs.size() == 3);
  for (const plan::Job& job : plan.jobs) {
    CHECK(job.status == plan::Status::kInProgress);
    CHECK(job.gpus == 32);
    CHECK(job.multinode);
  }
  CHECK(contains(plan::plan_table(plan.jobs), "in progress, not dispatched"));
}

TEST_CASE("expand: an unknown entry is answered with the nearest name") {
  const plan::Plan plan = plan::expand(repository(), {.entries = {"embeded-dspark-8k256"}});
  CHECK(plan.jobs.empty());
  REQUIRE(plan.diagnostics.items().size() == 1);
  CHECK(plan.diagnostics.items()[0].rule == rule::plan_unknown_entry);
  CHECK(contains(plan.diagnostics.items()[0].help, "embedded-dspark-8k256"));
}

TEST_CASE("expand: a concurrency that the entry does not list is an error for a named entry") {
  const plan::Plan plan = plan::expand(repository(), {.entries = {"embedded-dspark-8k256"}, .concurrencies = {64}});
  CHECK(plan.jobs.empty());
  REQUIRE(plan.diagnostics.items().size() == 1);
  CHECK(plan.diagnostics.items()[0].rule == rule::plan_no_job);
}

TEST_CASE("expand: an entry named twice gives its jobs once") {
  const plan::Plan plan = plan::expand(repository(), {.entries = {"embedded-dspark-8k256", "embedded-dspark*"}});
  CHECK(plan.jobs.size() == 1);
}
