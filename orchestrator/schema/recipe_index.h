// Finds recipes by the names that entries use for them.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "orchestrator/schema/config.h"

namespace sweep::schema {

// A reference "recipes/a/b.yaml" means that file of the checkout, or, in the peer's layout,
// benchmarks/multi_node/srt-slurm-recipes/a/b.yaml.
class RecipeIndex {
 public:
  explicit RecipeIndex(const std::vector<RecipeFile>& recipes);

  // Null if no such file was read.
  const RecipeFile* find(std::string_view path) const;

  // Whether the folder that the path names holds recipes that were read.
  bool has_folder_of(std::string_view path) const;

  // Files of that folder, for "did you mean".
  std::vector<std::string_view> beside(std::string_view path) const;

 private:
  std::unordered_map<std::string, const RecipeFile*> files_;
  std::unordered_map<std::string, std::vector<std::string>> folders_;
};

}  // namespace sweep::schema
