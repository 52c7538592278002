// The rows of rows.h before they become text.
#pragma once

#include <vector>

#include "orchestrator/plan/row.h"
#include "orchestrator/plan/rows.h"

namespace sweep::plan {

// Rows point into the checkout.
struct RowList {
  std::vector<BuiltRow> rows;
  diag::Diagnostics diagnostics;
};

RowList full_sweep_rows(const schema::Checkout& checkout, const FullSweep& options);
RowList test_config_rows(const schema::Checkout& checkout, const TestConfig& options);

// The rows of these entries, in their order, as `test-config` makes them.
RowList entry_rows(const schema::Checkout& checkout, const std::vector<const schema::MatrixEntry*>& entries,
                   const RowFilter& filter);

}  // namespace sweep::plan
