// The table of rules: every diagnostic belongs to one. `sweepctl explain RULE`, the JSON output and the tests read it.
//
// A rule is one line SWEEP_RULE(identifier, "family/name", severity, "summary", "explanation") in the file of its
// family under rules/. Slugs are never renamed and never reused.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace sweep::diag {

enum class Severity : uint8_t { kError, kWarning, kNote };

std::string_view severity_name(Severity severity);

enum class RuleId : uint16_t {
#define SWEEP_RULE(identifier, slug, severity, summary, explanation) identifier,
#include "orchestrator/diag/rules/all.def"
#undef SWEEP_RULE
};

struct RuleInfo {
  RuleId id;
  std::string_view slug;
  Severity severity;
  std::string_view summary;      // one line
  std::string_view explanation;  // why the rule exists, an example of what breaks it, what to do
};

// All rules, ordered by family file and line.
std::span<const RuleInfo> rules();

const RuleInfo& rule_info(RuleId id);

// Null if there is no such rule.
const RuleInfo* find_rule(std::string_view slug);

}  // namespace sweep::diag
