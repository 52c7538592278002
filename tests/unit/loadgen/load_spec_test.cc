#include "orchestrator/loadgen/load_spec.h"

#include <nlohmann/json.hpp>

#include "orchestrator/diag/rules/load.h"
#include "tests/support/catch.h"

namespace sweep::loadgen {

namespace {
LoadSpec good() {
  return {.job = "j",
          .base_url = "http://127.0.0.1:1",
          .model = "m \"quoted\"",
          .isl = 100,
          .osl = 10,
          .concurrency = 1,
          .requests = 1,
          .prompt_tokens = {.begin = 3, .end = 100}};
}
}  // namespace

TEST_CASE("load spec: a good one has no problem, and a bad one shows all of them") {
  CHECK(check(good()).empty());
  LoadSpec bad = good();
  bad.isl = 0;
  bad.osl = -1;
  bad.concurrency = 0;
  bad.requests = 0;
  bad.warmup_requests = -1;
  bad.prompt_tokens = {.begin = -4, .end = -3};
  const auto problems = check(bad);
  CHECK(problems.items().size() == 7);
  for (const auto& problem : problems.items()) CHECK(problem.rule == diag::rule::load_bad_spec);
}

TEST_CASE("load spec: the body asks for exactly the lengths, as a stream with usage and token ids") {
  const auto body = nlohmann::json::parse(completion_body(good(), 77), nullptr, false);
  REQUIRE(body.is_object());
  CHECK(body["prompt"].size() == 100);
  CHECK(body["prompt"].get<std::vector<int64_t>>() == make_prompt(77, 100, good().prompt_tokens));
  CHECK(body["model"] == "m \"quoted\"");
  CHECK(body["max_tokens"] == 10);
  CHECK(body["min_tokens"] == 10);
  CHECK(body["ignore_eos"] == true);
  CHECK(body["temperature"] == 0.0);
  CHECK(body["stream"] == true);
  CHECK(body["stream_options"]["include_usage"] == true);
  CHECK(body["stream_options"]["continuous_usage_stats"] == true);
  CHECK(body["return_token_ids"] == true);
  CHECK(body["seed"] == 77);
}

}  // namespace sweep::loadgen
