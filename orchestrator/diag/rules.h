// Rules: every diagnostic belongs to one. `sweepctl explain RULE`, the JSON output and the tests read the table.
//
// A rule is one line SWEEP_RULE(identifier, "family/name", severity, "summary", "explanation") in rules/<family>.def.
// Whoever reports it includes rules/<family>.h and says diag::rule::identifier. Slugs are never renamed and never
// reused.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace sweep::diag {

enum class Severity : uint8_t { kError, kWarning, kNote };

std::string_view severity_name(Severity severity);

struct RuleInfo {
  std::string_view slug;
  Severity severity;
  std::string_view summary;      // one line
  std::string_view explanation;  // why the rule exists, an example of what breaks it, what to do

  // There is one of each: a rule is known by its address.
  constexpr RuleInfo(std::string_view name, Severity level, std::string_view line, std::string_view page)
      : slug(name), severity(level), summary(line), explanation(page) {}
  RuleInfo(const RuleInfo&) = delete;
  RuleInfo& operator=(const RuleInfo&) = delete;
};

// Names a rule; cheap to copy.
class RuleId {
 public:
  constexpr RuleId(const RuleInfo& info) : info_(&info) {}  // NOLINT(google-explicit-constructor): a rule is its id

  const RuleInfo& info() const { return *info_; }

  friend bool operator==(RuleId a, RuleId b) { return a.info_ == b.info_; }
  friend bool operator<(RuleId a, RuleId b) { return a.info_->slug < b.info_->slug; }

 private:
  const RuleInfo* info_;
};

// All rules, ordered by family file and line.
std::span<const RuleInfo* const> rules();

inline const RuleInfo& rule_info(RuleId id) {
  return id.info();
}

// Null if there is no such rule.
const RuleInfo* find_rule(std::string_view slug);

}  // namespace sweep::diag
