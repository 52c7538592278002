// The kinds of files, their field tables and how each is recognised and decoded.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "orchestrator/schema/config.h"
#include "orchestrator/schema/shape.h"

namespace sweep::schema {

enum class FileKind : uint8_t { kMatrix, kRunners, kRecipe, kAcceptance, kChangelog, kPin, kCluster, kRow, kResult };
template <>
struct ChoiceNames<FileKind> {
  static constexpr std::array<std::string_view, 9> kNames{"matrix", "runners", "recipe", "acceptance", "changelog",
                                                          "pin",    "cluster", "row",    "result"};
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
const ObjectShape& lock_shape();  // the short form of a pin
const ObjectShape& cluster_shape();
const ObjectShape& result_shape();

// Whole files: mappings from free names, lists, and files of several forms.
const Shape& matrix_file_shape();
const Shape& acceptance_file_shape();
const Shape& changelog_file_shape();
const Shape& pin_file_shape();
const Shape& row_shape();

// A kind of file as a whole, for editors and the reference page.
struct FileShape {
  std::string_view title;  // "sweepctl matrix"
  std::string_view prose;
  Shape root;
  // Recipes may hold a `base` and changes of it instead of a recipe: recipe_variants.h.
  bool has_variants = false;
  bool may_be_list = false;  // of such roots
};
const FileShape& file_shape(FileKind kind);

// Decoders: report everything, return what could be read.
std::vector<MatrixEntry> decode_matrix(const DocumentPtr& document, diag::Diagnostics& out);
Runners decode_runners(const DocumentPtr& document, diag::Diagnostics& out);
RecipeFile decode_recipe(const DocumentPtr& document, std::string path, diag::Diagnostics& out);
std::vector<AcceptanceCurve> decode_acceptance(const DocumentPtr& document, diag::Diagnostics& out);
std::vector<ChangelogEntry> decode_changelog(const DocumentPtr& document, diag::Diagnostics& out);
Pin decode_pin(const DocumentPtr& document, std::string path, diag::Diagnostics& out);
void decode_cluster(const DocumentPtr& document, diag::Diagnostics& out);
void decode_result(const DocumentPtr& document, diag::Diagnostics& out);

// Forms that several tables share.
extern const TextForm kCommitForm;  // 40 hexadecimal digits, lower case
extern const TextForm kSha256Form;  // 64 hexadecimal digits, lower case

}  // namespace sweep::schema
