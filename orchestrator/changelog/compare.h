// The append-only rules over two revisions of a changelog. Pure: what the revisions are is decided by whoever reads
// them (history.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "orchestrator/changelog/align.h"
#include "orchestrator/changelog/link.h"
#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/schema/changelog_file.h"

namespace sweep::changelog {

struct Revision {
  std::string name;  // what diagnostics show
  std::string text;
};

// Where the head stands, which decides about the links of new entries.
struct Policy {
  // Number of the pull request; XXX for one that is not open yet; nothing for the main branch.
  std::optional<std::string> pull_request = std::nullopt;
  // Empty: the repository that the base's links agree on.
  RepositoryAddress repository = {};
};

struct Comparison {
  schema::ChangelogFile base;  // without document if the base has no such file
  schema::ChangelogFile head;
  std::vector<Change> changes;   // empty if a revision could not be read
  RepositoryAddress repository;  // that the links were judged by; may be empty
  bool accepted = false;         // no error was reported

  std::vector<const schema::ChangelogEntry*> entries(ChangeKind kind) const;
};

// Reports every violation of the file rules in both revisions and of the append-only rules between them.
Comparison compare(const std::optional<Revision>& base, const Revision& head, const Policy& policy,
                   diag::Diagnostics& out);

// "entry 2 (https://github.com/o/n/pull/14: key-a, key-b)", counted from 1.
std::string name_of(const schema::ChangelogEntry& entry, size_t index);

}  // namespace sweep::changelog
