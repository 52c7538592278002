// The job matrix in the form of the closest peer's generator (InferenceX, utils/matrix_logic): rows that workflows
// dispatch. Row order, field order and values are the peer's, so that its files and workflows work unmodified.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/schema/checkout.h"

namespace sweep::plan {

// Rows that one workflow matrix can take. Each row is compact JSON.
struct Bucket {
  std::string name;  // "single_node/8k1k", "multi_node/agentic", "evals", ...
  std::vector<std::string> rows;
};

enum class Evals : uint8_t {
  kDefault,  // mark the rows that are also evaluated
  kNone,     // mark none
  kOnly,     // keep only the rows to evaluate
  kAll,      // keep only rows to evaluate, and evaluate every point
};

struct RowFilter {
  Evals evals = Evals::kDefault;
  std::string runner_node_filter;                     // text that a node's name contains; empty: rows name the label
  std::vector<schema::ScenarioKind> scenario_types;   // empty: all
  std::vector<std::pair<int64_t, int64_t>> seq_lens;  // (isl, osl) of fixed-seq-len blocks; empty: all
  bool into_buckets = false;                          // also sort the rows into what one workflow matrix can take
};

struct FullSweep {
  RowFilter filter;
  std::vector<std::string> model_prefixes;  // of the entry's key
  std::vector<std::string> precisions, frameworks, runner_types;
  int64_t step_size = 2;  // of concurrency ranges, at least 2
  std::optional<int64_t> min_conc, max_conc, max_tp, max_ep;
  bool single_node = true;
  bool multi_node = true;
};

struct TestConfig {
  RowFilter filter;
  std::vector<std::string> config_keys;  // names, or globs with "*" and "?"
  std::vector<int64_t> concurrencies;    // only these; empty: all
};

struct MatrixRows {
  std::string json;  // one line: an array of rows, without a line break
  size_t count = 0;
  std::vector<Bucket> buckets;  // if asked for: without entries in progress, rows with defaults filled in
  diag::Diagnostics diagnostics;
};

// Entries must have been validated: what could not be decoded is left out silently. Rows of entries that are in
// progress carry `status: in-progress` and are never to be dispatched.
MatrixRows full_sweep(const schema::Checkout& checkout, const FullSweep& options);
MatrixRows test_config(const schema::Checkout& checkout, const TestConfig& options);

}  // namespace sweep::plan
