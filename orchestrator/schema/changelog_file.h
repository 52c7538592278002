// One changelog file by itself. What may change between two revisions of it is judged in orchestrator/changelog/.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/schema/config.h"

namespace sweep::schema {

// What stands in pr-link until the pull request has a number.
inline constexpr std::string_view kPlaceholderLink = "XXX";

struct ChangelogFile {
  DocumentPtr document;  // null if the text could not be read as YAML
  std::vector<ChangelogEntry> entries;
  bool valid = false;  // nothing was reported

  bool is_list() const { return document != nullptr && document->root().is_sequence(); }
  // Offset of the line on which an entry begins; of the end of the file behind the last one.
  uint32_t line_start(size_t index) const;
};

// Parses, decodes and checks; every problem goes to `out`. `name` is what diagnostics show.
ChangelogFile read_changelog(std::string name, std::string text, diag::Diagnostics& out);

// Rules over the bytes of a changelog.
void check_changelog_text(const yaml::Document& document, diag::Diagnostics& out);

// The names that the keys of an entry match, in the order of `names`.
std::vector<std::string_view> matched_names(const ChangelogEntry& entry, std::span<const std::string_view> names);

// Reports each key of an entry that matches none of the names.
void check_entry_keys(const ChangelogEntry& entry, std::span<const std::string_view> names, diag::Diagnostics& out);

}  // namespace sweep::schema
