// Points of the matrix to rows. Private to this module.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/plan/row.h"
#include "orchestrator/schema/checkout.h"
#include "orchestrator/schema/points.h"

namespace sweep::plan {

RowKind kind_of(const schema::PointView& view);

struct RowInput {
  const schema::PointView* view = nullptr;
  std::string runner;  // label, or a node of it
  std::vector<int64_t> concurrencies;
  std::optional<int64_t> ep;  // in the place of the point's own
  int64_t total_cpu_dram_gb = 0;
};
BuiltRow build_row(const RowInput& input);

// Host memory for KV offloading in GB; 0 without offloading, nothing (with a diagnostic) if it cannot be known.
std::optional<int64_t> dram_budget(const schema::PointView& view, const schema::Checkout& checkout,
                                   diag::Diagnostics& out);

}  // namespace sweep::plan
