// What is wrong with a whole job matrix, though each of its rows is good. Private to this module.
#pragma once

#include <vector>

#include "orchestrator/plan/row.h"
#include "orchestrator/plan/rows.h"

namespace sweep::plan {

// Rows that are the same twice, and different rows whose result files have one name.
void check_row_names(const std::vector<BuiltRow>& rows, diag::Diagnostics& out);

// The same, and nothing to run at all.
void check_row_list(const std::vector<BuiltRow>& rows, diag::Diagnostics& out);

// Values of filters that no entry has.
void check_filters(const schema::Checkout& checkout, const FullSweep& options, diag::Diagnostics& out);

// The base name of a row's result files (InferenceX, benchmark job templates): without the machine's name at its end.
std::string result_name(const BuiltRow& built);

}  // namespace sweep::plan
