#include "orchestrator/judge/verdict.h"

#include <nlohmann/json.hpp>

#include "tests/unit/judge/good_run.h"

using namespace sweep;
using namespace sweep::test;

TEST_CASE("judge: a run in which everything is as asked is valid, with every condition listed") {
  const judge::Verdict verdict = Run().judged();
  INFO(judge::to_json(verdict).dump(2));
  CHECK(verdict.valid());
  CHECK(verdict.reasons().empty());
  CHECK(verdict.conditions.size() == 14);
  CHECK(condition(verdict, rule::judge_power).outcome == Outcome::kNotApplicable);
}

TEST_CASE("judge: one request of 255 tokens makes the run invalid and is named") {
  Run run;
  run.samples[3].completion_tokens = 255;
  run.samples[3].received_tokens = 255;
  check_only_failure(run, rule::judge_lengths, "request 3: 8192 prompt tokens (asked 8192), 255 output tokens");
}

TEST_CASE("judge: lengths are checked by usage and by what arrived") {
  Run run;
  SECTION("8191 prompt tokens") {
    run.samples[0].prompt_tokens = 8191;
  }
  SECTION("usage says 256, 255 arrived") {
    run.samples[9].received_tokens = 255;
  }
  SECTION("what arrived is unknown") {
    run.samples[1].received_tokens = std::nullopt;
  }
  SECTION("usage is missing") {
    run.samples[1].completion_tokens = std::nullopt;
  }
  SECTION("stopped by itself at the right length") {
    run.samples[1].finish_reason = "stop";
  }
  check_only_failure(run, rule::judge_lengths, "1 of 10 requests");
}

TEST_CASE("judge: a failed request is not left out") {
  Run run;
  run.samples[2].problems.push_back({"load/stream-cut", "the stream ended early"});
  check_only_failure(run, rule::judge_requests, "request 2: the stream ended early");
}

TEST_CASE("judge: fewer samples than planned is not a smaller valid run") {
  Run run;
  run.samples.pop_back();
  const judge::Verdict verdict = run.judged();
  CHECK(condition(verdict, rule::judge_sample_count).outcome == Outcome::kFailed);
}

TEST_CASE("judge: acceptance is judged against what was asked") {
  Run run;
  SECTION("just inside") {
    run.count(450, 2115 + 31);  // +0.069
    CHECK(run.judged().valid());
  }
  SECTION("outside") {
    run.count(450, 2115 + 36);  // +0.080
    check_only_failure(run, rule::judge_acceptance, "asked 5.7 +- 0.071");
  }
  SECTION("a window that chance does not explain") {
    run.windows.push_back(judge::Window::counted(40, 160));
    check_only_failure(run, rule::judge_acceptance, "1 of 3 decode windows");
  }
  SECTION("measured acceptance has no value to meet") {
    run.job.acceptance = {plan::AcceptanceSource::kMeasured, std::nullopt};
    CHECK(run.judged().valid());
  }
}

TEST_CASE("judge: acceptance that was never read back cannot be valid") {
  Run run;
  run.acceptance.reset();
  run.counted = {};
  const judge::Verdict verdict = run.judged();
  CHECK(condition(verdict, rule::judge_acceptance).outcome == Outcome::kFailed);
  CHECK(condition(verdict, rule::judge_counters).outcome == Outcome::kFailed);
}

TEST_CASE("judge: counters that other requests moved are noticed although the mean is right") {
  Run run;
  run.count(900, 4230);
  check_only_failure(run, rule::judge_counters,
                     "counters account for 5130 tokens; these requests explain 2550 to 2620");
}

TEST_CASE("judge: prefix-cache hits invalidate, by usage or by counter") {
  Run run;
  SECTION("usage") {
    run.samples[5].cached_tokens = 64;
  }
  SECTION("counter") {
    run.counted.cached_tokens = 64;
  }
  SECTION("log") {
    run.log = judge::EngineLog{.cached_tokens = 64};
  }
  check_only_failure(run, rule::judge_prefix_cache, "64");
}

TEST_CASE("judge: weights must be verified, at the entry's revision") {
  Run run;
  SECTION("not verified") {
    run.weights_verified = false;
  }
  SECTION("another revision") {
    run.weights_revision = "r2";
  }
  check_only_failure(run, rule::judge_weights, "verified");
}

TEST_CASE("judge: the kernels that ran must be the gated ones") {
  Run run;
  SECTION("gate not passed") {
    run.gate_passed = false;
  }
  SECTION("other bytes were loaded") {
    run.loaded = "bb";
  }
  SECTION("the engine does not say") {
    run.loaded.clear();
  }
  check_only_failure(run, rule::judge_kernels, "kernel");
}

TEST_CASE("judge: a GPU run without telemetry is not valid, and every lack is listed") {
  Run run;
  run.job.gpus = 8;
  run.job.image = "example/image:tag";
  run.compiles_at_run_time = true;
  const judge::Verdict verdict = run.judged();
  for (const RuleId rule :
       std::initializer_list<RuleId>{rule::judge_image, rule::judge_exclusive, rule::judge_jit, rule::judge_power})
    CHECK(condition(verdict, rule).outcome == Outcome::kFailed);
  CHECK(verdict.reasons().size() == 4);
}

TEST_CASE("judge: why there is no telemetry is said") {
  Run run;
  run.job.gpus = 8;
  run.no_telemetry = "NVML cannot be loaded";
  const judge::Verdict verdict = run.judged();
  for (const RuleId rule : std::initializer_list<RuleId>{rule::judge_exclusive, rule::judge_power})
    CHECK(condition(verdict, rule).text == "GPU telemetry was not recorded: NVML cannot be loaded");
}

TEST_CASE("judge: power and exclusive use of the GPUs follow from the telemetry") {
  Run run;
  run.job.gpus = 8;
  run.telemetry = judge::Telemetry{
      .power_valid = true, .power_text = "8 GPUs sampled", .foreign_processes = 0, .occupied_before = {}};
  const auto outcomes = [&](Outcome power, Outcome exclusive, std::string_view text) {
    const judge::Verdict verdict = run.judged();
    CHECK(condition(verdict, rule::judge_power).outcome == power);
    CHECK(condition(verdict, rule::judge_exclusive).outcome == exclusive);
    const std::string all =
        condition(verdict, rule::judge_power).text + "\n" + condition(verdict, rule::judge_exclusive).text;
    INFO(all);
    CHECK(contains(all, text));
  };
  SECTION("both as they should be") {
    outcomes(Outcome::kPassed, Outcome::kPassed, "8 GPUs sampled\nno other process was seen");
  }
  SECTION("power that does not cover the window") {
    run.telemetry->power_valid = false;
    run.telemetry->power_text = "power: GPU 3 was not sampled";
    outcomes(Outcome::kFailed, Outcome::kPassed, "GPU 3 was not sampled");
  }
  SECTION("another process inside the window") {
    run.telemetry->foreign_processes = 2;
    outcomes(Outcome::kPassed, Outcome::kFailed, "2 other processes");
  }
  SECTION("processes that could not be listed") {
    run.telemetry->foreign_processes = std::nullopt;
    outcomes(Outcome::kPassed, Outcome::kFailed, "could not be listed");
  }
  SECTION("something there before the engine") {
    run.telemetry->occupied_before = "GPU 0 had 1 processes and 9000 MiB in use";
    outcomes(Outcome::kPassed, Outcome::kFailed, "before the engine was launched, GPU 0 had");
  }
}

TEST_CASE("judge: the verdict as JSON names each rule") {
  Run run;
  run.gate_passed = false;
  const nlohmann::json json = judge::to_json(run.judged());
  CHECK(json["valid"] == false);
  CHECK(json["reasons"].size() == 1);
  CHECK(json["conditions"][0]["rule"] == "judge/sample-count");
}
