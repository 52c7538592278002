// The kinds of files, their field tables and how each is recognised and decoded.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "orchestrator/schema/config.h"
#include "orchestrator/schema/shape.h"

namespace sweep::schema {

enum class FileKind : uint8_t { kMatrix, kRunners, kRecipe, kAcceptance, kChangelog, kPin, kCluster, kRow };
template <>
struct ChoiceNames<FileKind> {
  static constexpr std::array<std::string_view, 8> kNames{"matrix",    "runners", "recipe",  "acceptance",
                                                          "changelog", "pin",     "cluster", "row"};
};

// Recognised by content; the folder helps only where the content says nothing (an empty file).
std::optional<FileKind> find_kind(const yaml::Node& root, std::string_view path);

// Field tables.
const ObjectShape& single_node_entry_shape();
const ObjectShape& multi_node_entry_shape();
const ObjectShape& runners_shape();
const ObjectShape& recipe_shape();
const ObjectShape& changelog_entry_shape();
const ObjectShape& pin_shape();
const ObjectShape& cluster_shape();

// Decoders: report everything, return what could be read.
std::vector<MatrixEntry> decode_matrix(const DocumentPtr& document, diag::Diagnostics& out);
Runners decode_runners(const DocumentPtr& document, diag::Diagnostics& out);
RecipeFile decode_recipe(const DocumentPtr& document, std::string path, diag::Diagnostics& out);
std::vector<AcceptanceCurve> decode_acceptance(const DocumentPtr& document, diag::Diagnostics& out);
std::vector<ChangelogEntry> decode_changelog(const DocumentPtr& document, diag::Diagnostics& out);
Pin decode_pin(const DocumentPtr& document, std::string path, diag::Diagnostics& out);
void decode_cluster(const DocumentPtr& document, diag::Diagnostics& out);

// Forms that several tables share.
extern const TextForm kCommitForm;  // 40 hexadecimal digits, lower case
extern const TextForm kSha256Form;  // 64 hexadecimal digits, lower case

}  // namespace sweep::schema
