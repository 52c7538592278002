// Is the result usable? Every condition is decided and listed; none hides another.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/diag/rules.h"
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

// Verification steps and the draft tokens accepted in them.
struct Steps {
  int64_t steps = 0;
  int64_t accepted = 0;

  double acceptance_length() const { return 1.0 + static_cast<double>(accepted) / static_cast<double>(steps); }
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
  std::optional<Steps> acceptance;             // engine counters over the measured window
  std::vector<Steps> windows;                  // decode windows inside it
  int64_t prefix_cache_hits = 0;               // engine counter over the window
  bool weights_verified = false;
  std::string weights_revision;
  bool gate_passed = false;
  std::string gated_kernel_sha256;
  std::string loaded_kernel_sha256;  // as the engine reports; empty if it does not
  bool uses_bundled_kernels = true;
  bool compiles_at_run_time = false;
  std::optional<Telemetry> telemetry = std::nullopt;
  std::string no_telemetry = {};  // why there is none
};

Verdict judge(const Evidence& evidence);

// Half-width of the interval in which the mean of `steps` draws around `length` must lie; see judge/acceptance.
double acceptance_tolerance(double length, int64_t steps, double standard_deviations);

inline constexpr double kOverallDeviations = 3.3;
inline constexpr double kWindowDeviations = 4.0;

std::string_view outcome_name(Outcome outcome);
nlohmann::json to_json(const Verdict& verdict);

}  // namespace sweep::judge
