// Which entry of one revision is which of the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/schema/changelog_file.h"

namespace sweep::changelog {

enum class ChangeKind : uint8_t {
  kAdded,      // behind everything that the base has
  kCorrected,  // only its pr-link differs
  kInserted,   // new, with entries of the base behind it
  kDeleted,
  kChanged,
  kMoved,  // in both, in another order
};

struct Change {
  ChangeKind kind = ChangeKind::kAdded;
  std::optional<size_t> base;  // index of the entry there, from 0
  std::optional<size_t> head;
  size_t place = 0;  // in the head: the entry itself, or the one before which a deleted entry is missing
};

// All differences between the entries of two revisions, as parsed: in order of the head, deletions where the entry
// should stand. Entries without a difference are not listed. Both must be lists.
std::vector<Change> align(const schema::ChangelogFile& base, const schema::ChangelogFile& head);

// What an entry says apart from its pr-link, in a form that is equal for entries that say the same.
std::string content_of(const yaml::Node& item);

}  // namespace sweep::changelog
