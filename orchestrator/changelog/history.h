// The two revisions that a change of the changelog is judged by, read with git.
#pragma once

#include <optional>
#include <string>

#include "orchestrator/changelog/compare.h"
#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/git/repository.h"

namespace sweep::changelog {

struct HistoryQuestion {
  std::string file;                                // from the top of the working tree
  std::string base;                                // a revision, usually the main branch
  std::optional<std::string> head = std::nullopt;  // a revision; nothing: the working tree
  bool tip = false;                                // compare with the base itself, not with the merge base
};

struct History {
  git::Commit tip;   // of the base
  git::Commit from;  // that the head is compared with: the merge base, or the tip where the head has all of it
  std::optional<git::Commit> to;        // nothing: the working tree
  std::optional<Revision> base;         // nothing: no such file there
  std::optional<Revision> head;         // likewise
  std::optional<Revision> base_at_tip;  // likewise
};

// Fails with what git cannot answer, or file/unreadable for the file of the working tree.
diag::Result<History> read_history(const git::Repository& repository, const HistoryQuestion& question);

// How many entries the base has gained since; more than none is reported as changelog/behind.
size_t check_behind(const History& history, const HistoryQuestion& question, diag::Diagnostics& out);

}  // namespace sweep::changelog
