// The rules of the family power/, as diag::rule::power_...
#pragma once

#include "orchestrator/diag/rules.h"

namespace sweep::diag::rule {
#define SWEEP_RULE(identifier, slug, severity, summary, explanation) extern const RuleInfo identifier;
#include "orchestrator/diag/rules/power.def"
#undef SWEEP_RULE
}  // namespace sweep::diag::rule
