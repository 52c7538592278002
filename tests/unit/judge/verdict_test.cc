#include "orchestrator/judge/verdict.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "orchestrator/diag/rules/judge.h"
#include "tests/support/catch.h"

using namespace sweep;
using diag::RuleId;
namespace rule = diag::rule;
using judge::Outcome;

namespace {

constexpr int64_t kRequests = 10;

// A run in which everything is as asked; each test breaks one thing.
struct Run {
  plan::Job job;
  std::vector<sample::Sample> samples;
  std::optional<judge::Realised> acceptance;
  std::vector<judge::Window> windows;
  judge::Counted counted;
  std::optional<judge::EngineLog> log;
  bool draws_per_step = false;
  bool weights_verified = true;
  std::string weights_revision = "r1";
  bool gate_passed = true;
  std::string gated = "aa";
  std::string loaded = "aa";
  bool uses_bundled_kernels = true;
  bool compiles_at_run_time = false;
  std::optional<judge::Telemetry> telemetry;
  std::string no_telemetry;
  std::string image_digest;

  Run() {
    job.isl = 8192;
    job.osl = 256;
    job.concurrency = 1;
    job.num_draft_tokens = 7;
    job.acceptance = {plan::AcceptanceSource::kExplicit, 5.7};
    job.revision = "r1";
    for (int64_t i = 0; i < kRequests; ++i) {
      sample::Sample s;
      s.sequence = i;
      s.status = 200;
      s.finish_reason = "length";
      s.prompt_tokens = 8192;
      s.completion_tokens = 256;
      s.received_tokens = 256;
      s.cached_tokens = 0;
      samples.push_back(s);
    }
    count(450, 2115);  // 1 + 4.7
    windows = {judge::Window::counted(40, 188), judge::Window::counted(40, 190)};
  }

  void count(int64_t steps, int64_t accepted) {
    acceptance = judge::Realised::counted(steps, accepted);
    counted.steps = steps;
    counted.accepted = accepted;
    counted.drafted = steps * job.num_draft_tokens;
    counted.cached_tokens = 0;
  }

  judge::Verdict judged() const {
    return judge::judge({.job = job,
                         .planned_requests = kRequests,
                         .samples = samples,
                         .acceptance = acceptance,
                         .windows = windows,
                         .counted = counted,
                         .log = log,
                         .draws_per_step = draws_per_step,
                         .weights_verified = weights_verified,
                         .weights_revision = weights_revision,
                         .gate_passed = gate_passed,
                         .gated_kernel_sha256 = gated,
                         .loaded_kernel_sha256 = loaded,
                         .uses_bundled_kernels = uses_bundled_kernels,
                         .compiles_at_run_time = compiles_at_run_time,
                         .telemetry = telemetry,
                         .no_telemetry = no_telemetry,
                         .image_digest = image_digest});
  }
};

const judge::Condition& condition(const judge::Verdict& verdict, RuleId rule) {
  const auto found = std::find_if(verdict.conditions.begin(), verdict.conditions.end(),
                                  [&](const judge::Condition& c) { return c.rule == rule; });
  REQUIRE(found != verdict.conditions.end());
  return *found;
}

// Exactly this condition failed, so that no other one hides behind it.
void check_only_failure(const Run& run, RuleId rule, std::string_view part_of_text) {
  const judge::Verdict verdict = run.judged();
  CHECK_FALSE(verdict.valid());
  for (const judge::Condition& c : verdict.conditions) {
    INFO(c.text);
    CHECK((c.outcome == Outcome::kFailed) == (c.rule == rule));
  }
  INFO(condition(verdict, rule).text);
  CHECK(contains(condition(verdict, rule).text, part_of_text));
}

}  // namespace

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

TEST_CASE("judge: the verdict as JSON names each rule") {
  Run run;
  run.gate_passed = false;
  const nlohmann::json json = judge::to_json(run.judged());
  CHECK(json["valid"] == false);
  CHECK(json["reasons"].size() == 1);
  CHECK(json["conditions"][0]["rule"] == "judge/sample-count");
}
