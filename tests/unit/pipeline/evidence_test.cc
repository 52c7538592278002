// From the documents of a run to the verdict: which figure the realised acceptance length is taken from, and with how
// many draws behind it.
#include "orchestrator/pipeline/evidence.h"

#include "tests/support/catch.h"

using namespace sweep;
using nlohmann::json;

namespace {

plan::Job job_of(const std::string& framework, int64_t concurrency) {
  plan::Job job;
  job.framework = framework;
  job.concurrency = concurrency;
  job.num_draft_tokens = 7;
  job.acceptance = {plan::AcceptanceSource::kExplicit, 5.7};
  return job;
}

json window(double length, const json& steps, const json& accepted) {
  return {{"line", 1}, {"acceptance_length", length}, {"steps", steps}, {"accepted", accepted}};
}

json log_of(json windows) {
  const json none = {{"count", 0}, {"first", json::array()}};
  return {{"windows", std::move(windows)},
          {"steps_per_window", 40},
          {"compile_lines", none},
          {"error_lines", none},
          {"problem", nullptr}};
}

diag::Result<pipeline::Judged> judged(const plan::Job& job, const json& measurement) {
  static const json kNone = json::object();
  static const pipeline::PowerOutcome kNoPower;
  return pipeline::judge_recorded({.job = job,
                                   .samples = {},
                                   .engine = kNone,
                                   .weights = kNone,
                                   .kernels = kNone,
                                   .measurement = measurement,
                                   .power = kNoPower});
}

}  // namespace

TEST_CASE("evidence: counters come first, with a draw for each step of a request") {
  const json measurement = {{"counted", {{"drafts", 450}, {"accepted", 2115}, {"mean_since_start", 5.1}}},
                            {"log", log_of({window(5.6, 40, 184)})}};
  const auto vllm = judged(job_of("vllm", 16), measurement).value();
  REQUIRE(vllm.acceptance.has_value());
  CHECK(vllm.acceptance->from == judge::AcceptanceFrom::kCounters);
  CHECK(vllm.acceptance->length == Approx(5.7));
  CHECK(vllm.acceptance->draws == 450);
  REQUIRE(vllm.windows.size() == 1);
  CHECK(vllm.windows[0].draws == 40);
}

TEST_CASE("evidence: of an engine that counts no accepted drafts, the log's windows, with a draw for each batch step") {
  const json measurement = {{"counted", {{"drafts", 7200}, {"mean_since_start", 5.1}}},
                            {"log", log_of({window(5.6, nullptr, nullptr), window(5.8, nullptr, nullptr)})}};
  const auto sglang = judged(job_of("sglang", 16), measurement).value();
  REQUIRE(sglang.acceptance.has_value());
  CHECK(sglang.acceptance->from == judge::AcceptanceFrom::kLogWindows);
  CHECK(sglang.acceptance->length == Approx(5.7));
  CHECK(sglang.acceptance->draws == 80);
  CHECK(sglang.acceptance->steps == 7200);
}

TEST_CASE("evidence: without a log, the mean that the engine gives since its start") {
  const json measurement = {{"counted", {{"drafts", 480}, {"mean_since_start", 5.65}}}, {"log", nullptr}};
  const auto sglang = judged(job_of("sglang", 16), measurement).value();
  REQUIRE(sglang.acceptance.has_value());
  CHECK(sglang.acceptance->from == judge::AcceptanceFrom::kSinceStart);
  CHECK(sglang.acceptance->draws == 30);
}

TEST_CASE("evidence: counters that fell say nothing, and what is not there is nothing") {
  const json fell = {{"counted", {{"drafts", 450}, {"accepted", 2115}, {"problem", "x fell from 9 to 3"}}},
                     {"log", nullptr}};
  CHECK_FALSE(judged(job_of("vllm", 1), fell)->acceptance.has_value());
  const json nothing = {{"counted", json::object()}, {"log", nullptr}};
  CHECK_FALSE(judged(job_of("vllm", 1), nothing)->acceptance.has_value());
  CHECK_FALSE(judged(job_of("vllm", 1), json::object()).has_value());
  CHECK_FALSE(judged(job_of("vllm", 1), {{"counted", json::object()}, {"log", 7}}).has_value());
  CHECK_FALSE(judged(job_of("no-such-engine", 1), nothing).has_value());
}
