// Which rows of the job matrix are also evaluated (InferenceX, utils/matrix_logic). Private to this module.
#pragma once

#include <vector>

#include "orchestrator/plan/row.h"
#include "orchestrator/plan/rows.h"

namespace sweep::plan {

void mark_evals(std::vector<BuiltRow>& rows, Evals evals);

}  // namespace sweep::plan
