// Rows sorted into the buckets that workflows dispatch. Private to this module.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/plan/row.h"
#include "orchestrator/plan/rows.h"

namespace sweep::plan {

// One level of the bucketed object: lists of rows by name, in the order of first rows.
struct RowBuckets {
  std::vector<std::pair<std::string, std::vector<BuiltRow>>> lists;

  void add(const std::string& name, BuiltRow built);
};

// "8k1k", "1k1k", "ISL_OSL" or "agentic".
std::string bucket_of(const BuiltRow& built);

// "single_node" and "multi_node" with a bucket of their own per length, or a bucket of evaluations.
std::string dispatch_bucket(const BuiltRow& built);

// Takes out the rows of entries in progress, with one warning an entry.
std::vector<BuiltRow> drop_in_progress(std::vector<BuiltRow> rows, diag::Diagnostics& out);

// Each row as it is dispatched, on one line.
std::vector<Bucket> texts_of(const RowBuckets& buckets);

// More jobs than a workflow matrix may hold. `what` holds them, for the message.
void check_matrix_limit(size_t jobs, std::string_view what, diag::Diagnostics& out);

// Throughput buckets that the peer's sweep has no job for.
void check_dispatched(const RowBuckets& buckets, diag::Diagnostics& out);

}  // namespace sweep::plan
