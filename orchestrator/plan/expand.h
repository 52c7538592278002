// Matrix entries -> jobs. Pure: no file is read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/plan/job.h"
#include "orchestrator/schema/checkout.h"

namespace sweep::plan {

struct Selection {
  // Names of entries, "*" matching anything. Empty: all entries.
  std::vector<std::string> entries;
  // Only these concurrencies. Empty: all.
  std::vector<int64_t> concurrencies;
};

struct Plan {
  std::vector<Job> jobs;          // in the order of the selection, then of the files
  diag::Diagnostics diagnostics;  // unknown names (with the nearest one), selections that give no job
};

// The jobs of the selected entries' fixed-seq-len points; in-progress entries included and marked. Entries that are
// themselves invalid give what could be decoded: callers refuse a checkout with errors first.
Plan expand(const schema::Checkout& checkout, const Selection& selection);

// The acceptance length of the golden curve for an entry's model, the curve with thinking on before others.
std::optional<double> golden_length(const schema::Checkout& checkout, const schema::MatrixEntry& entry, int64_t drafts);

// A table for people: one line a job.
std::string plan_table(const std::vector<Job>& jobs);

}  // namespace sweep::plan
