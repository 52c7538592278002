// The rules of the family changes/, as diag::rule::changes_...
#pragma once

#include "orchestrator/diag/rules.h"

namespace sweep::diag::rule {
#define SWEEP_RULE(identifier, slug, severity, summary, explanation) extern const RuleInfo identifier;
#include "orchestrator/diag/rules/changes.def"
#undef SWEEP_RULE
}  // namespace sweep::diag::rule
