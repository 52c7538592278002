// What a change runs: the entries appended to the changelog, turned into rows in buckets, as the peer's processor does
// (InferenceX, utils/process_changelog.py). Pure: revisions are read by the caller.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/plan/rows.h"
#include "orchestrator/schema/checkout.h"

namespace sweep::plan {

struct ChangesRequest {
  const schema::Checkout& head;            // without errors
  const schema::Checkout* base = nullptr;  // for append-only entries; null: that revision has no matrix
  std::span<const schema::ChangelogEntry> added;
  std::string base_ref, head_ref;  // as the output names them
  bool trim_conc = false;          // only the lowest concurrency of each recipe
  bool all_evals = false;          // evaluate every point
  bool evals_only = false;         // no throughput
  bool is_chunked = false;         // the rows are split for Actions: its limits are no findings then
};

struct Changes {
  std::string json;             // one line, the peer's object; empty if refused
  std::string metadata;         // its changelog_metadata alone
  std::vector<Bucket> buckets;  // those with rows, in the order of the object
  size_t count = 0;             // of rows
  diag::Diagnostics diagnostics;
};

Changes plan_changes(const ChangesRequest& request);

// Whether any of the entries needs the base revision.
bool has_append_only(std::span<const schema::ChangelogEntry> added);

}  // namespace sweep::plan
