// A run of which everything is as asked, for tests that break one thing.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>

#include "orchestrator/diag/rules/judge.h"
#include "orchestrator/judge/verdict.h"
#include "tests/support/catch.h"

namespace sweep::test {

using diag::RuleId;
using judge::Outcome;
namespace rule = diag::rule;

inline constexpr int64_t kRequests = 10;

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

inline const judge::Condition& condition(const judge::Verdict& verdict, RuleId rule) {
  const auto found = std::find_if(verdict.conditions.begin(), verdict.conditions.end(),
                                  [&](const judge::Condition& c) { return c.rule == rule; });
  REQUIRE(found != verdict.conditions.end());
  return *found;
}

// Exactly this condition failed, so that no other one hides behind it.
inline void check_only_failure(const Run& run, RuleId rule, std::string_view part_of_text) {
  const judge::Verdict verdict = run.judged();
  CHECK_FALSE(verdict.valid());
  for (const judge::Condition& c : verdict.conditions) {
    INFO(c.text);
    CHECK((c.outcome == Outcome::kFailed) == (c.rule == rule));
  }
  INFO(condition(verdict, rule).text);
  CHECK(contains(condition(verdict, rule).text, part_of_text));
}

}  // namespace sweep::test
