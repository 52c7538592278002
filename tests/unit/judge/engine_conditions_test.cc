// Conditions that are decided from what the engine counted and logged, and the table of tolerances.
#include <cmath>

#include "tests/unit/judge/good_run.h"

using namespace sweep;
using namespace sweep::test;

TEST_CASE("judge: the tolerance is that of a least-variance schedule") {
  CHECK(judge::chance(5.7, 447, 3.3) == Approx(3.3 * std::sqrt(0.21 / 447)).epsilon(1e-6));
  CHECK(judge::chance(6.0, 447, 3.3) == Approx(0).margin(1e-8));
  CHECK(judge::chance(5.7, 0, 3.3) == 0);
}

TEST_CASE("judge: each figure has the tolerance of its source") {
  const auto width = [](judge::AcceptanceFrom from, int64_t draws) {
    return judge::half_width(judge::tolerance_of(from), 5.7, draws);
  };
  CHECK(width(judge::AcceptanceFrom::kCounters, 450) == Approx(0.0713).margin(1e-4));
  CHECK(width(judge::AcceptanceFrom::kLogWindows, 450) == Approx(0.1));
  CHECK(width(judge::AcceptanceFrom::kLogWindows, 40) == Approx(0.2391).margin(1e-4));
  CHECK(width(judge::AcceptanceFrom::kSinceStart, 0) == Approx(0.1));
  CHECK(judge::half_width(judge::tolerance_of_window(true), 5.7, 40) == Approx(0.2898).margin(1e-4));
  CHECK(judge::half_width(judge::tolerance_of_window(false), 5.7, 40) == Approx(0.2948).margin(1e-4));
  for (const judge::Tolerance& tolerance : judge::tolerances()) CHECK_FALSE(tolerance.what.empty());
}

TEST_CASE("judge: an engine that draws for its whole batch is held to fewer draws") {
  Run run;
  run.draws_per_step = true;
  run.count(450, 2115 + 60);  // +0.133
  run.acceptance->draws = 450 / 16;
  run.windows.clear();
  const judge::Verdict verdict = run.judged();
  CHECK(condition(verdict, rule::judge_acceptance).outcome == Outcome::kPassed);
  CHECK(contains(condition(verdict, rule::judge_acceptance).text,
                 "3.3 standard deviations of 28 draws, one for each step of the batch"));
}

TEST_CASE("judge: acceptance that only a log tells is taken from its windows") {
  Run run;
  run.acceptance = judge::Realised{.from = judge::AcceptanceFrom::kLogWindows, .length = 5.66, .draws = 400};
  run.windows.assign(10, judge::Window{.length = 5.66, .draws = 40});
  run.counted = {.steps = 450, .generated_tokens = 2560};
  run.log = judge::EngineLog{.cached_tokens = 0};
  CHECK(run.judged().valid());
  CHECK(contains(condition(run.judged(), rule::judge_acceptance).text, "5.660 over 10 windows of the log, asked 5.7"));
  SECTION("a window too far away") {
    run.windows[3].length = 5.4;
    check_only_failure(run, rule::judge_acceptance, "1 of 10 decode windows");
  }
  SECTION("tokens of another client") {
    run.counted.generated_tokens = 2816;
    check_only_failure(run, rule::judge_counters, "counted 2816 generated tokens; these requests received 2560");
  }
  SECTION("a log that cannot be read") {
    run.acceptance.reset();
    run.windows.clear();
    run.log->problem = "the engine's log is not there";
    const judge::Verdict verdict = run.judged();
    CHECK(contains(condition(verdict, rule::judge_acceptance).text, "the engine's log is not there"));
    CHECK(condition(verdict, rule::judge_engine_log).outcome == Outcome::kFailed);
  }
}

TEST_CASE("judge: drafts of which none is accepted are a dead draft head") {
  Run run;
  run.job.acceptance = {plan::AcceptanceSource::kMeasured, std::nullopt};
  run.windows.clear();
  run.count(2550, 0);
  check_only_failure(run, rule::judge_dead_draft, "none of 17850 drafted tokens was accepted");
}

TEST_CASE("judge: counters that fell mean nothing") {
  Run run;
  run.counted.problem = "vllm:spec_decode_num_drafts_total{} fell from 900 to 3";
  check_only_failure(run, rule::judge_counters, "fell from 900 to 3");
}

TEST_CASE("judge: compilation and errors in the log of the window are found") {
  Run run;
  run.compiles_at_run_time = true;
  run.log = judge::EngineLog{};
  CHECK(run.judged().valid());
  SECTION("compilation") {
    run.log->compile_lines = 2;
    run.log->first_compile_line = "line 7: JIT code generation";
    check_only_failure(run, rule::judge_jit, "2 lines tell of compilation inside the measured interval: line 7");
  }
  SECTION("an error") {
    run.log->error_lines = 1;
    run.log->worst_error_line = "line 9: CUDA error";
    check_only_failure(run, rule::judge_engine_log, "1 line tells of an error inside the measured interval; line 9");
  }
  SECTION("no log") {
    run.log.reset();
    check_only_failure(run, rule::judge_jit, "was not determined");
  }
}

TEST_CASE("judge: whether the cache was hit must be known") {
  Run run;
  run.counted.cached_tokens.reset();
  for (sample::Sample& s : run.samples) s.cached_tokens.reset();
  check_only_failure(run, rule::judge_prefix_cache, "neither usage nor counters nor log");
}

TEST_CASE("judge: the digest of the image that runs is the pinned one") {
  const std::string digest = "sha256:" + std::string(64, 'a');
  Run run;
  run.job.gpus = 8;
  run.job.image = "example/image:tag@" + digest;
  run.job.image_pinned = true;
  run.telemetry = judge::Telemetry{
      .power_valid = true, .power_text = "8 GPUs sampled", .foreign_processes = 0, .occupied_before = {}};
  run.image_digest = digest;
  CHECK(run.judged().valid());
  run.image_digest = "sha256:" + std::string(64, 'b');
  check_only_failure(run, rule::judge_image, "the running image is sha256:bbb");
  run.image_digest.clear();
  check_only_failure(run, rule::judge_image, "was not read back");
}
