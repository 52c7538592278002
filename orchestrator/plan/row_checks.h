// What is wrong with a whole job matrix, though each of its rows is good. Private to this module.
#pragma once

#include <vector>

#include "orchestrator/plan/row.h"
#include "orchestrator/plan/rows.h"

namespace sweep::plan {

// Whether there is anything to run at all.
void check_rows_left(const std::vector<BuiltRow>& rows, diag::Diagnostics& out);

// Values of filters that no entry has.
void check_filters(const schema::Checkout& checkout, const FullSweep& options, diag::Diagnostics& out);

}  // namespace sweep::plan
