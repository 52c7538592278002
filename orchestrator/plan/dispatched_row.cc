#include <array>
#include <span>
#include <string_view>

#include "orchestrator/plan/row.h"

namespace sweep::plan {

namespace {

using std::string_view;

// The peer's row schemas (InferenceX, utils/matrix_logic/validation.py), in their order.
constexpr std::array<string_view, 22> kSingleFixed{"image",
                                                   "model",
                                                   "model-prefix",
                                                   "precision",
                                                   "framework",
                                                   "spec-decoding",
                                                   "runner",
                                                   "isl",
                                                   "osl",
                                                   "tp",
                                                   "pp",
                                                   "dcp-size",
                                                   "pcp-size",
                                                   "ep",
                                                   "dp-attn",
                                                   "conc",
                                                   "max-model-len",
                                                   "exp-name",
                                                   "disagg",
                                                   "run-eval",
                                                   "eval-only",
                                                   "router"};
constexpr std::array<string_view, 21> kMultiFixed{
    "image",  "model",    "model-prefix", "precision", "framework",      "spec-decoding", "runner",
    "isl",    "osl",      "prefill",      "decode",    "conc",           "max-model-len", "exp-name",
    "disagg", "run-eval", "eval-only",    "eval-conc", "eval-all-concs", "router",        "kv-p2p-transfer"};
constexpr std::array<string_view, 23> kSingleAgentic{"image",
                                                     "model",
                                                     "model-prefix",
                                                     "precision",
                                                     "framework",
                                                     "runner",
                                                     "tp",
                                                     "pp",
                                                     "dcp-size",
                                                     "pcp-size",
                                                     "ep",
                                                     "dp-attn",
                                                     "spec-decoding",
                                                     "conc",
                                                     "kv-offloading",
                                                     "kv-offload-backend",
                                                     "router",
                                                     "total-cpu-dram-gb",
                                                     "duration",
                                                     "exp-name",
                                                     "scenario-type",
                                                     "run-eval",
                                                     "eval-only"};
constexpr std::array<string_view, 22> kMultiAgentic{"image",         "model",           "model-prefix",
                                                    "precision",     "framework",       "spec-decoding",
                                                    "runner",        "prefill",         "decode",
                                                    "conc",          "kv-offloading",   "kv-offload-backend",
                                                    "router",        "kv-p2p-transfer", "total-cpu-dram-gb",
                                                    "duration",      "exp-name",        "disagg",
                                                    "scenario-type", "run-eval",        "eval-only",
                                                    "eval-conc"};
constexpr std::array<string_view, 9> kWorker{"num-worker", "tp",      "pp",       "dcp-size",           "pcp-size",
                                             "ep",         "dp-attn", "hardware", "additional-settings"};
constexpr std::array<string_view, 2> kComponent{"name", "version"};

std::span<const string_view> order_of(RowKind kind) {
  switch (kind) {
    case RowKind::kSingleFixed:
      return kSingleFixed;
    case RowKind::kMultiFixed:
      return kMultiFixed;
    case RowKind::kSingleAgentic:
      return kSingleAgentic;
    case RowKind::kMultiAgentic:
      break;
  }
  return kMultiAgentic;
}

// Known fields in their order, then the others as they stand; nulls are left out.
Row ordered(const Row& row, std::span<const string_view> order) {
  Row result = Row::object();
  for (const string_view name : order) {
    const auto found = row.find(std::string(name));
    if (found != row.end() && !found->is_null()) result[found.key()] = *found;
  }
  for (const auto& [name, value] : row.items())
    if (!value.is_null() && !result.contains(name)) result[name] = value;
  return result;
}

}  // namespace

Row dispatched_row(const BuiltRow& built) {
  Row row = built.row;
  if (!built.is_agentic() && !row.contains("eval-only")) row["eval-only"] = false;
  if (built.kind == RowKind::kMultiFixed && !row.contains("eval-all-concs")) row["eval-all-concs"] = false;
  for (const char* role : {"prefill", "decode"}) {
    if (!row.contains(role)) continue;
    if (!row[role].contains("additional-settings")) row[role]["additional-settings"] = Row::array();
    row[role] = ordered(row[role], kWorker);
  }
  for (const char* component : {"router", "kv-offload-backend"})
    if (row.contains(component)) row[component] = ordered(row[component], kComponent);
  const Row fingerprint = row.value("recipe-fingerprint", Row());
  row.erase("recipe-fingerprint");
  Row result = ordered(row, order_of(built.kind));
  if (!fingerprint.is_null()) result["recipe-fingerprint"] = fingerprint;
  return result;
}

}  // namespace sweep::plan
