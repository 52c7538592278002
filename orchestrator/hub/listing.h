// What a hub says about the files of a commit: the replies of its tree and paths-info APIs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/diag/diagnostic.h"

namespace sweep::hub {

// Exactly one of the digests is there: of a large file the SHA-256 (its git blob is only a pointer), of others git's.
struct ListedFile {
  std::string path;
  uint64_t size = 0;
  std::optional<std::string> sha256 = {};
  std::optional<std::string> git_blob = {};
  std::string security = {};  // securityFileStatus.status; empty if not said

  const std::string& digest() const { return sha256 ? *sha256 : *git_blob; }
};

// Where entries come from, for messages, and the rule that what is wrong with them breaks.
struct EntrySource {
  std::string name;
  diag::RuleId rule;
};

// Reads a list of entries; folders are left out. Everything that is wrong is reported, and what cannot be understood is
// left out. Paths that leave the model's folder are weights/path-escape.
std::vector<ListedFile> parse_entries(std::string_view text, const EntrySource& source, diag::Diagnostics& diagnostics);

// Sorts by path and reports names that stand there twice (left once) or differ only in case.
void tidy(std::vector<ListedFile>& files, diag::Diagnostics& diagnostics);

// Null if it is not listed. `files` by path.
const ListedFile* find_file(std::span<const ListedFile> files, std::string_view path);

// Names that the numbering "-00001-of-00048" of the files calls for and that are not listed.
std::vector<std::string> missing_numbers(std::span<const ListedFile> files);

// What a text that should have been JSON looks like: "an HTML page", "empty", ...
std::string_view looks_like(std::string_view text);

// "\"a\", \"b\" and 46 more".
std::string enumeration(std::span<const std::string> names);

}  // namespace sweep::hub
