// The rules of the family hub/, as diag::rule::hub_...
#pragma once

#include "orchestrator/diag/rules.h"

namespace sweep::diag::rule {
#define SWEEP_RULE(identifier, slug, severity, summary, explanation) extern const RuleInfo identifier;
#include "orchestrator/diag/rules/hub.def"
#undef SWEEP_RULE
}  // namespace sweep::diag::rule
