// What a maintainer reviews before a matrix is dispatched: how much runs where, what a change adds, removes or alters,
// and what is out of the ordinary. Computes; report/ formats.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/schema/checkout.h"

namespace sweep::plan {

// A job is a row of the job matrix; a point is one concurrency of it.
struct RunnerLoad {
  std::string runner;
  std::string gpu_type;  // empty: the label names none
  size_t jobs = 0;       // that would be dispatched
  size_t points = 0;
  size_t evaluated = 0;    // jobs that are also evaluated by the default policy
  size_t in_progress = 0;  // jobs of entries in progress: never dispatched
  int64_t least_gpus = 0;  // of a job
  int64_t most_gpus = 0;
  size_t jobs_with_limit = 0;    // whose recipe states a time limit
  double limited_gpu_hours = 0;  // of those jobs, at most
};

// Entries that depart from their model in the same way, on the same authority.
struct ResearchGroup {
  std::vector<std::string> entries;
  std::string authorization;
  std::vector<std::string> deviations;
};

// Points with the same acceptance control.
struct AcceptanceGroup {
  std::string method;            // of speculative decoding
  int64_t draft_tokens = 0;      // 0: not stated
  std::string source;            // empty: not stated
  std::optional<double> length;  // explicit or of the golden curve
  std::vector<std::string> entries;
  size_t topologies = 0;  // entries of search spaces, each with its concurrencies
};

struct OpenItem {
  enum class Kind : uint8_t { kInProgress, kUnresolvedRecipe };
  Kind kind = Kind::kInProgress;
  std::string entry;
  std::vector<std::string> recipes;  // that are not in this checkout
};

struct FieldChange {
  std::string path, before, after;  // compact JSON; empty: not stated
};

// One recipe of one entry whose points differ from the base.
struct RecipeChange {
  std::string entry;
  std::string recipe;                   // "8k1k tp8 ep8 mtp"
  std::vector<int64_t> added, removed;  // concurrencies
  std::vector<int64_t> changed;         // that stay, but mean something else by `fields`
  std::vector<FieldChange> fields;
};

struct ChangeTotals {
  size_t added = 0, removed = 0, changed = 0;  // points
};

struct MatrixSummary {
  size_t entries = 0, jobs = 0, points = 0, in_progress = 0;
  std::vector<RunnerLoad> runners;  // by name
  std::vector<ResearchGroup> research;
  std::vector<AcceptanceGroup> acceptance;
  std::vector<OpenItem> open;
  bool has_base = false;
  ChangeTotals totals;
  std::vector<RecipeChange> changes;  // by entry, head's order first
  diag::Diagnostics diagnostics;      // warnings about rows
};

// `base` may be null.
MatrixSummary summarise(const schema::Checkout& head, const schema::Checkout* base);

// Slurm's forms of a time limit (sbatch(1), --time): "30", "30:00", "02:00:00", "1-12", "1-12:30", "1-12:30:00".
// Minutes; nothing for other text, "0" and "UNLIMITED" included.
std::optional<double> time_limit_minutes(std::string_view text);

}  // namespace sweep::plan
