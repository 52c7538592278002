// Append-only changes: points are added to curves that exist, and nothing else changes (InferenceX,
// utils/process_changelog.py). Private to this module.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "orchestrator/plan/row_list.h"
#include "orchestrator/schema/checkout.h"

namespace sweep::plan {

// What the append-only entries select: names of matrix entries with the scenarios, and who names them first.
struct AppendSelection {
  struct Item {
    std::set<schema::ScenarioKind> scenarios;
    const schema::ChangelogEntry* by = nullptr;
    const schema::Text* key = nullptr;
  };
  std::map<std::string, Item, std::less<>> items;
};

struct Revisions {
  const schema::Checkout& base;
  const schema::Checkout& head;
};

// Everything outside the selection is as it was in the base, and what is selected was there.
void check_append_scope(const Revisions& revisions, const AppendSelection& selection, diag::Diagnostics& out);

// The rows of `head` that are not in `base`, of one changelog entry. Each recipe and each concurrency of the base must
// still be there, and each new row must belong to a curve of the base with the same image.
struct RowPair {
  const std::vector<BuiltRow>& base;
  const std::vector<BuiltRow>& head;
};
std::vector<BuiltRow> added_rows(const RowPair& rows, const schema::ChangelogEntry& entry, diag::Diagnostics& out);

}  // namespace sweep::plan
