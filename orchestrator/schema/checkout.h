// Everything that a checkout configures: loaded, decoded and checked in one go.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/diag/source_map.h"
#include "orchestrator/schema/config.h"
#include "orchestrator/schema/kinds.h"

namespace sweep::schema {

struct Checkout {
  std::filesystem::path root;
  std::vector<MatrixEntry> entries;  // files in name order, entries in file order
  Runners runners;
  std::vector<RecipeFile> recipes;
  std::vector<AcceptanceCurve> curves;
  std::vector<ChangelogEntry> changelog;
  std::vector<Pin> pins;
  size_t files = 0;

  diag::Diagnostics diagnostics;  // sorted
  diag::SourceMap sources;

  const RecipeFile* find_recipe(std::string_view path) const;
  const Pin* find_pin(std::string_view model, std::string_view revision) const;
  const MatrixEntry* find_entry(std::string_view key) const;
};

// A recipe reference "path[:selector]" taken apart.
struct RecipeReference {
  std::string path;
  std::string selector;
};
RecipeReference parse_recipe_reference(std::string_view text);

// The recipe variant that a reference names; null if there is none.
const RecipeVariant* find_recipe_variant(const Checkout& checkout, std::string_view reference);

// Whether a file of a checkout is one that people write: YAML or JSON, but no JSON Schema.
bool is_configuration_file(const std::filesystem::path& path);

// Reads matrix/, recipes/ and changelog/ below `root` and checks each file and all bindings between them. File names
// in diagnostics are relative to `root`.
Checkout load_checkout(const std::filesystem::path& root);

// Matrix files by name, in this order, with the recipes, pins and curves of `root`; `runner_file` stands in the place
// of the root's runners. Names in diagnostics are as given.
struct FileSelection {
  std::vector<std::filesystem::path> matrix_files;
  std::optional<std::filesystem::path> runner_file;
};
Checkout load_matrix_files(const std::filesystem::path& root, const FileSelection& selection);

// A file in memory, such as one of another revision.
struct SourceText {
  std::string name;  // what diagnostics show
  std::string path;  // in its checkout
  std::string text;
  std::optional<FileKind> kind = std::nullopt;  // found from the content, if not stated
  bool outside_root = false;                    // no part of the checkout
};

// The same from memory: matrix and runner files to report on, and what they refer to.
struct TextSelection {
  std::vector<SourceText> targets;
  std::vector<SourceText> context;
};
Checkout load_texts(TextSelection selection);

struct Validation {
  diag::Diagnostics diagnostics;  // sorted
  diag::SourceMap sources;
  size_t files = 0;
  size_t entries = 0;
};

// Validates files and folders; without paths the whole checkout. Diagnostics are about these files, bindings to the
// rest of the checkout included. Entries without a recipe are bound to a single recipe named beside them. `kind`
// overrides recognition by content.
Validation validate_paths(const std::filesystem::path& root, const std::vector<std::filesystem::path>& paths,
                          std::optional<FileKind> kind = std::nullopt);

}  // namespace sweep::schema
