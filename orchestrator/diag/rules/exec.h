// The rules of the family exec/, as diag::rule::exec_...
#pragma once

#include "orchestrator/diag/rules.h"

namespace sweep::diag::rule {
#define SWEEP_RULE(identifier, slug, severity, summary, explanation) extern const RuleInfo identifier;
#include "orchestrator/diag/rules/exec.def"
#undef SWEEP_RULE
}  // namespace sweep::diag::rule
