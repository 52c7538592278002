#include "orchestrator/schema/recipe_index.h"

namespace sweep::schema {

namespace {

// The part of a path below the recipe folder; the path itself if it names none.
std::string_view below_recipes(std::string_view path) {
  for (const std::string_view folder : {"srt-slurm-recipes/", "recipes/"}) {
    const size_t at = path.rfind(folder);
    if (at != std::string_view::npos && (at == 0 || path[at - 1] == '/')) return path.substr(at + folder.size());
  }
  return path;
}

std::string folder_of(std::string_view key) {
  const size_t slash = key.rfind('/');
  return std::string(slash == std::string_view::npos ? std::string_view() : key.substr(0, slash));
}

}  // namespace

RecipeIndex::RecipeIndex(const std::vector<RecipeFile>& recipes) {
  for (const RecipeFile& recipe : recipes) {
    std::string key(below_recipes(recipe.path));
    folders_[folder_of(key)].push_back(key);
    files_.emplace(std::move(key), &recipe);
  }
}

const RecipeFile* RecipeIndex::find(std::string_view path) const {
  const auto found = files_.find(std::string(below_recipes(path)));
  return found == files_.end() ? nullptr : found->second;
}

bool RecipeIndex::has_folder_of(std::string_view path) const {
  return folders_.contains(folder_of(below_recipes(path)));
}

std::vector<std::string_view> RecipeIndex::beside(std::string_view path) const {
  const auto found = folders_.find(folder_of(below_recipes(path)));
  if (found == folders_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

}  // namespace sweep::schema
