// What inside a recipe forces the acceptance length. Entries state the length and the engine's adapter renders it; a
// control in a recipe would override it, or be overridden, without anyone seeing it. Private to this module.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "orchestrator/schema/config.h"
#include "orchestrator/schema/engine_flags.h"

namespace sweep::schema {

struct AcceptanceControl {
  std::string name;  // "SGLANG_SIMULATE_ACC_LEN"
  yaml::Range where;
  std::optional<double> committed;  // tokens per step, the target's own included; absent if it is not a number
  bool counts_drafts = false;       // the value as written leaves the target's own token out
  std::string text;                 // the value as written
};

// Wherever it stands: environment blocks of any role, engine flags in any spelling, JSON in a text, extra arguments.
std::vector<AcceptanceControl> find_controls(const yaml::Node& tree);

// What makes steps verify fewer drafts than were made.
struct AdaptiveVerification {
  std::string name;
  yaml::Range where;
};
std::optional<AdaptiveVerification> find_adaptive(const Recipe& recipe);

// Whether a text, as a variable or flag name, forces the acceptance length.
bool is_control_name(std::string_view name);

}  // namespace sweep::schema
