#include "orchestrator/diag/rules.h"

#include <algorithm>
#include <array>

namespace sweep::diag {

namespace rule {
using enum Severity;
#define SWEEP_RULE(identifier, slug, severity, summary, explanation) \
  extern const RuleInfo identifier;                                  \
  constinit const RuleInfo identifier{slug, severity, summary, explanation};
#include "orchestrator/diag/rules/all.def"
#undef SWEEP_RULE
}  // namespace rule

namespace {

using enum Severity;

constexpr auto kRules = std::to_array<const RuleInfo*>({
#define SWEEP_RULE(identifier, slug, severity, summary, explanation) &rule::identifier,
#include "orchestrator/diag/rules/all.def"
#undef SWEEP_RULE
});

}  // namespace

std::string_view severity_name(Severity severity) {
  switch (severity) {
    case kError:
      return "error";
    case kWarning:
      return "warning";
    case kNote:
      return "note";
  }
  return "error";
}

std::span<const RuleInfo* const> rules() {
  return kRules;
}

const RuleInfo* find_rule(std::string_view slug) {
  const auto found = std::find_if(kRules.begin(), kRules.end(), [&](const RuleInfo* r) { return r->slug == slug; });
  return found == kRules.end() ? nullptr : *found;
}

}  // namespace sweep::diag
