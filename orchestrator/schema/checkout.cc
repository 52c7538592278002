#include "orchestrator/schema/checkout.h"

#include <algorithm>

#include "orchestrator/schema/loader.h"

namespace sweep::schema {

namespace {

namespace fs = std::filesystem;

// Name of a path in diagnostics: as given, without "./" and a slash at the end.
std::string name_of(const fs::path& path) {
  std::string name = path.lexically_normal().generic_string();
  if (name.size() > 1 && name.ends_with('/')) name.pop_back();
  return name;
}

// Recipes and golden curves of a checkout in the peer's layout, above the named files.
void load_peer_folders(Loader& loader, const std::vector<fs::path>& paths) {
  constexpr int kMostLevels = 3;
  for (const fs::path& path : paths) {
    std::error_code ignored;
    fs::path folder = fs::absolute(path, ignored).lexically_normal();
    for (int level = 0; level < kMostLevels && folder.has_relative_path(); ++level) {
      const fs::path recipes = folder / "benchmarks" / "multi_node" / "srt-slurm-recipes";
      if (fs::is_directory(recipes, ignored)) {
        const auto load = [&](const fs::path& below, FileKind kind) {
          const std::string name = path.is_absolute() ? below.generic_string()
                                                      : below.lexically_proximate(fs::current_path()).generic_string();
          loader.load_folder(below, name, Loader::Role::kContext, kind);
        };
        load(recipes, FileKind::kRecipe);
        const fs::path curves = folder / "golden_al_distribution";
        if (fs::is_directory(curves, ignored)) load(curves, FileKind::kAcceptance);
        break;
      }
      folder = folder.parent_path();
    }
  }
}

}  // namespace

const RecipeFile* Checkout::find_recipe(std::string_view path) const {
  const auto found = std::find_if(recipes.begin(), recipes.end(), [&](const RecipeFile& r) { return r.path == path; });
  return found == recipes.end() ? nullptr : &*found;
}

const Pin* Checkout::find_pin(std::string_view model, std::string_view revision) const {
  const auto found = std::find_if(pins.begin(), pins.end(), [&](const Pin& pin) {
    return pin.model.value == model && pin.revision.value == revision;
  });
  return found == pins.end() ? nullptr : &*found;
}

const MatrixEntry* Checkout::find_entry(std::string_view key) const {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const MatrixEntry& e) { return e.key == key; });
  return found == entries.end() ? nullptr : &*found;
}

RecipeReference parse_recipe_reference(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return {std::string(text), {}};
  return {std::string(text.substr(0, colon)), std::string(text.substr(colon + 1))};
}

const RecipeVariant* find_recipe_variant(const Checkout& checkout, std::string_view reference) {
  const RecipeReference parsed = parse_recipe_reference(reference);
  const RecipeFile* file = checkout.find_recipe(parsed.path);
  return file == nullptr ? nullptr : file->find(parsed.selector);
}

bool is_configuration_file(const fs::path& path) {
  const std::string name = path.filename().string();
  if (name.starts_with('.') || name.ends_with(".schema.json")) return false;
  return path.extension() == ".yaml" || path.extension() == ".yml" || path.extension() == ".json";
}

Checkout load_checkout(const fs::path& root) {
  Loader loader(root);
  loader.load_root(Loader::Role::kTarget);
  return loader.finish(Loader::Settings::kAll);
}

Checkout load_matrix_files(const fs::path& root, const FileSelection& selection) {
  Loader loader(root);
  if (selection.runner_file)
    loader.load(*selection.runner_file, name_of(*selection.runner_file), Loader::Role::kTarget, FileKind::kRunners);
  for (const fs::path& file : selection.matrix_files)
    loader.load(file, name_of(file), Loader::Role::kTarget, FileKind::kMatrix);
  // What entries refer to, without the root's own entries.
  for (const char* folder : {"recipes", "matrix/acceptance", "matrix/models"}) {
    std::error_code ignored;
    if (fs::is_directory(root / folder, ignored)) loader.load_folder(root / folder, folder, Loader::Role::kContext);
  }
  const fs::path own_runners = root / "matrix" / "runners.yaml";
  std::error_code ignored;
  if (!selection.runner_file && fs::is_regular_file(own_runners, ignored))
    loader.load(own_runners, "matrix/runners.yaml", Loader::Role::kContext, FileKind::kRunners);
  return loader.finish(Loader::Settings::kOwn);
}

Checkout load_texts(TextSelection selection) {
  Loader loader(".");
  loader.assume_checkout();  // each text says itself whether it is outside
  for (SourceText& source : selection.targets) loader.add(std::move(source), Loader::Role::kTarget);
  for (SourceText& source : selection.context) loader.add(std::move(source), Loader::Role::kContext);
  return loader.finish(Loader::Settings::kNone);
}

Validation validate_paths(const fs::path& root, const std::vector<fs::path>& paths, std::optional<FileKind> kind) {
  Loader loader(root);
  if (paths.empty()) loader.load_root(Loader::Role::kTarget);
  for (const fs::path& path : paths) {
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) {
      const std::string name = name_of(path);
      loader.load_folder(path, name == "." ? std::string() : name, Loader::Role::kTarget, kind);
    } else {
      loader.load(path, name_of(path), Loader::Role::kTarget, kind);
    }
  }
  // A runner file beside the named files goes before the checkout's own.
  for (const fs::path& path : paths) {
    const fs::path beside = path.parent_path() / "runners.yaml";
    std::error_code ignored;
    if (fs::is_regular_file(beside, ignored))
      loader.load(beside, name_of(beside), Loader::Role::kContext, FileKind::kRunners);
  }
  load_peer_folders(loader, paths);
  loader.load_root(Loader::Role::kContext);
  Checkout checkout = loader.finish(Loader::Settings::kAll);
  Validation validation;
  validation.files = checkout.files;
  validation.entries = checkout.entries.size();
  validation.diagnostics = std::move(checkout.diagnostics);
  validation.sources = std::move(checkout.sources);
  return validation;
}

}  // namespace sweep::schema
