// Reads files of a checkout into typed configuration. Private to this module.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "orchestrator/schema/checkout.h"

namespace sweep::schema {

class Loader {
 public:
  explicit Loader(std::filesystem::path root);

  // Target files are reported on. Context files only give the rules something to look up.
  enum class Role : uint8_t { kTarget, kContext };

  // Reads one file; a file that was read before is skipped. `name` is what diagnostics show.
  void load(const std::filesystem::path& path, std::string name, Role role,
            std::optional<FileKind> kind = std::nullopt);

  // The files to come are those of a checkout, whether or not the root on disk is one.
  void assume_checkout() { is_checkout_ = true; }

  // The same for a file that is in memory.
  void add(SourceText source, Role role);

  // Reads the YAML and JSON files below a folder, in name order.
  void load_folder(const std::filesystem::path& folder, const std::string& name, Role role,
                   std::optional<FileKind> kind = std::nullopt);

  // Reads matrix/, recipes/ and changelog/ of the root.
  void load_root(Role role);

  // Whose additional-settings are checked. Those of files outside the checkout name recipes and acceptance lengths of
  // another project, which say nothing about the job matrix.
  enum class Settings : uint8_t { kAll, kOwn, kNone };

  // Runs all cross-field rules and gives the result away.
  Checkout finish(Settings settings);

 private:
  struct Place {
    std::string path;  // in the root
    bool outside_root = false;
    Role role = Role::kTarget;
  };
  void decode(const DocumentPtr& document, FileKind kind, const Place& place, diag::Diagnostics& out);
  void bind_named_recipe();
  void check_entries(Settings settings, diag::Diagnostics& out);
  bool is_about_target(const diag::Diagnostic& d) const;
  // Relative to the root; as given, for files outside it.
  std::string path_in_root(const std::filesystem::path& path) const;
  bool is_outside_root(const std::filesystem::path& path) const;

  Checkout checkout_;
  std::set<std::filesystem::path> loaded_;
  std::set<std::string, std::less<>> targets_;  // names of target files
  std::set<std::string> target_entries_;        // keys
  std::vector<MatrixEntry> context_entries_;
  std::vector<std::string> target_recipes_;  // paths
  bool runners_are_target_ = false;
  bool whole_root_ = false;
  bool is_checkout_ = false;  // the root holds matrix/
  bool in_folder_ = false;    // files are not named one by one
};

}  // namespace sweep::schema
