#include "orchestrator/pipeline/locations.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <system_error>

#include "orchestrator/diag/rules/cli.h"

namespace sweep::pipeline {

namespace {

namespace fs = std::filesystem;

bool is_checkout(const fs::path& folder) {
  std::error_code error;
  return fs::is_directory(folder / "matrix", error) && fs::is_directory(folder / "recipes", error);
}

std::optional<fs::path> from_environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return fs::path(value);
}

std::optional<fs::path> find_root(const std::optional<fs::path>& option) {
  std::error_code error;
  if (option)
    return is_checkout(*option) ? std::optional(fs::absolute(*option, error).lexically_normal()) : std::nullopt;
  for (fs::path folder = fs::current_path(error); !error; folder = folder.parent_path()) {
    if (is_checkout(folder)) return folder;
    if (folder == folder.parent_path()) break;
  }
  const auto named = from_environment("SWEEPCTL_ROOT");
  return named && is_checkout(*named) ? named : std::nullopt;
}

}  // namespace

std::optional<fs::path> user_cache() {
  std::error_code error;
  if (const auto named = from_environment("SWEEPCTL_CACHE")) return fs::absolute(*named, error);
  if (const auto xdg = from_environment("XDG_CACHE_HOME")) return *xdg / "sweepctl";
  if (const auto home = from_environment("HOME"); home && home->is_absolute() && *home != "/")
    return *home / ".cache" / "sweepctl";
  return std::nullopt;
}

diag::Result<Locations> find_locations(const std::optional<fs::path>& root_option) {
  const auto root = find_root(root_option);
  if (!root) {
    return diag::fail(diag::rule::cli_no_checkout,
                      root_option ? fmt::format("\"{}\" holds no matrix/ and recipes/", root_option->string())
                                  : "neither this folder nor one above it holds matrix/ and recipes/",
                      "run inside a checkout, or name it with --root DIR");
  }
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return Locations{.root = *root, .programs = program.parent_path(), .cache = user_cache().value_or(*root / ".cache")};
}

}  // namespace sweep::pipeline
