// The rules of the family weights/, as diag::rule::weights_...
#pragma once

#include "orchestrator/diag/rules.h"

namespace sweep::diag::rule {
#define SWEEP_RULE(identifier, slug, severity, summary, explanation) extern const RuleInfo identifier;
#include "orchestrator/diag/rules/weights.def"
#undef SWEEP_RULE
}  // namespace sweep::diag::rule
