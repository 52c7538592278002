// A row of the job matrix and where it came from. For this module and for what prints rows; others use rows.h.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/schema/config.h"

namespace sweep::plan {

// Fields in the order in which the peer's generator writes them.
using Row = nlohmann::ordered_json;

enum class RowKind : uint8_t { kSingleFixed, kMultiFixed, kSingleAgentic, kMultiAgentic };

struct BuiltRow {
  RowKind kind = RowKind::kSingleFixed;
  Row row;
  // The point that it was made from, in the checkout; of a merged row the first one.
  const schema::MatrixEntry* entry = nullptr;
  const schema::Point* point = nullptr;

  bool is_multi_node() const { return kind == RowKind::kMultiFixed || kind == RowKind::kMultiAgentic; }
  bool is_agentic() const { return kind == RowKind::kSingleAgentic || kind == RowKind::kMultiAgentic; }
  bool is_in_progress() const { return !entry->is_ready(); }
  std::vector<int64_t> concurrencies() const;

  diag::SourceSpan where() const;
  std::string path() const;  // "KEY.scenarios.fixed-seq-len[0].search-space[1]"
};

// Appends a row in the peer's way of writing JSON: ", " and ": ", non-ASCII as \uXXXX.
void append_text(std::string& out, const Row& row);

// "1k1k", "8k1k", else "ISL_OSL".
std::string length_text(int64_t isl, int64_t osl);

// A value as written, in JSON types.
Row value_row(const yaml::Node& node);

// Appends a field that the row does not have yet; `row[name]` would search for it.
void put(Row& row, std::string_view name, Row value);

// Compact JSON in ASCII, keys sorted at every level, without some fields of the row itself.
std::string compact_text(const Row& row, std::span<const std::string_view> without = {});

// What makes rows points of one recipe: everything but the concurrency and what is derived from it. Rows with equal
// keys differ in nothing else; the order of keys inside values does not matter.
std::string recipe_key(const Row& row);

// SHA-256, 64 hex digits, over the same fields as compact sorted JSON in ASCII (InferenceX,
// utils/process_changelog.py).
std::string recipe_fingerprint(const Row& row);

// The row as it is dispatched: the fields of the peer's row schema in its order, defaults filled in, nulls left out,
// then what only our entries state, then the fingerprint.
Row dispatched_row(const BuiltRow& built);

}  // namespace sweep::plan
