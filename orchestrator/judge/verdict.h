// Is the result usable? Every condition is decided and listed; none hides another.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/diag/rules.h"
#include "orchestrator/judge/tolerance.h"
#include "orchestrator/plan/job.h"
#include "orchestrator/sample/sample.h"

namespace sweep::judge {

enum class Outcome : uint8_t { kPassed, kFailed, kNotApplicable };

struct Condition {
  diag::RuleId rule;
  Outcome outcome = Outcome::kFailed;
  std::string text;  // what was found, in one sentence
};

struct Verdict {
  std::vector<Condition> conditions;

  bool valid() const;
  // The texts of the failed conditions.
  std::vector<std::string> reasons() const;
};

// An acceptance length, and what it was taken from.
struct Realised {
  AcceptanceFrom from = AcceptanceFrom::kCounters;
  double length = 0;
  std::optional<int64_t> steps;     // verification steps of single requests
  std::optional<int64_t> accepted;  // draft tokens accepted in them
  int64_t draws = 0;                // independent draws of a forced length behind it; 0: unknown

  // 1 + accepted / steps, drawn per request. `steps` is at least 1.
  static Realised counted(int64_t steps, int64_t accepted);
};

// One window of decode steps, as the engine logged it.
struct Window {
  double length = 0;
  std::optional<int64_t> steps;
  std::optional<int64_t> accepted;
  int64_t draws = 0;

  static Window counted(int64_t steps, int64_t accepted);
};

// What the engine counted over the measured window; absent what it does not count.
struct Counted {
  std::optional<int64_t> steps;
  std::optional<int64_t> accepted;
  std::optional<int64_t> drafted;
  std::optional<int64_t> generated_tokens;
  std::optional<int64_t> cached_tokens;  // of prompts
  std::string problem = {};              // why the counts mean nothing; empty: they do
};

// What the engine logged in the measured window.
struct EngineLog {
  size_t compile_lines = 0;
  std::string first_compile_line = {};
  size_t error_lines = 0;
  std::string worst_error_line = {};
  std::optional<int64_t> cached_tokens = std::nullopt;  // of prompts
  std::string problem = {};                             // why it could not be read; empty: it could
};

// What was sampled of the GPUs over the measured window.
struct Telemetry {
  bool power_valid = false;
  std::string power_text;                    // what was found, in one sentence
  std::optional<int64_t> foreign_processes;  // the most at one time; absent if they could not be listed
  std::string occupied_before;               // what was on the GPUs before the engine was launched; empty: nothing
};

// All that is known about a measured point. What is not known is absent, and then its condition fails.
struct Evidence {
  const plan::Job& job;
  int64_t planned_requests = 0;
  const std::vector<sample::Sample>& samples;  // measured ones, without warm-up
  std::optional<Realised> acceptance;
  std::vector<Window> windows;  // decode windows inside the measured one
  Counted counted = {};
  std::optional<EngineLog> log = std::nullopt;  // absent: the log is not at hand
  bool draws_per_step = false;  // a forced length is drawn once per step for the whole batch, not per request
  bool weights_verified = false;
  std::string weights_revision;
  bool gate_passed = false;
  std::string gated_kernel_sha256;
  std::string loaded_kernel_sha256;  // as the engine reports; empty if it does not
  bool uses_bundled_kernels = true;
  bool compiles_at_run_time = false;
  std::optional<Telemetry> telemetry = std::nullopt;
  std::string no_telemetry = {};  // why there is none
  std::string image_digest = {};  // of the image that runs, as its runtime tells: "sha256:..."
};

Verdict judge(const Evidence& evidence);

// How far the realised length may be from the asked one; absent where no value is to be met.
std::optional<double> acceptance_tolerance(const Realised& realised, const std::optional<double>& asked);

std::string_view outcome_name(Outcome outcome);
nlohmann::json to_json(const Verdict& verdict);

}  // namespace sweep::judge
