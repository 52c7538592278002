#include "orchestrator/plan/job.h"

#include <nlohmann/json.hpp>

#include "orchestrator/plan/expand.h"
#include "orchestrator/schema/checkout.h"
#include "tests/support/catch.h"

using namespace sweep;

namespace {

plan::Job some_job() {
  const schema::Checkout checkout = schema::load_checkout(SWEEP_SOURCE_DIR);
  const plan::Plan plan = plan::expand(checkout, {.entries = {"dsv41flash-fp8-h200-sglang-dspark"}});
  REQUIRE(plan.jobs.size() == 1);
  return plan.jobs[0];
}

}  // namespace

TEST_CASE("job: JSON and back gives the same job") {
  const plan::Job job = some_job();
  const auto back = plan::job_from_json(plan::to_json(job));
  REQUIRE(back.has_value());
  CHECK(plan::to_json(*back) == plan::to_json(job));
  CHECK(back->acceptance.length == job.acceptance.length);
  CHECK(back->where == job.where);
}

TEST_CASE("job: a missing or mistyped field is refused by name, whichever it is") {
  const nlohmann::json good = plan::to_json(some_job());
  for (const auto& [name, value] : good.items()) {
    INFO(name);
    nlohmann::json missing = good;
    missing.erase(name);
    const auto first = plan::job_from_json(missing);
    REQUIRE_FALSE(first.has_value());
    CHECK(contains(first.error().message, "\"" + name + "\""));
    nlohmann::json mistyped = good;
    mistyped[name] = value.is_object() ? nlohmann::json("text") : nlohmann::json::object();
    CHECK_FALSE(plan::job_from_json(mistyped).has_value());
  }
  CHECK_FALSE(plan::job_from_json(nlohmann::json::array()).has_value());
  CHECK_FALSE(plan::job_from_json(nullptr).has_value());
}

TEST_CASE("job: the id depends on what is measured, not on where it is written") {
  plan::Job job = some_job();
  CHECK(job.id.size() == 12);
  job.where.line += 10;
  CHECK(plan::job_id(job) == job.id);
  job.concurrency += 1;
  CHECK(plan::job_id(job) != job.id);
}
