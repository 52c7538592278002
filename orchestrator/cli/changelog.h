// What the sub-commands of `changelog` share. Private to cli/.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/changelog/compare.h"
#include "orchestrator/cli/command.h"

namespace sweep::cli {

struct ChangelogOptions {
  std::string file;
  std::string repository;
  std::vector<std::string> config_files;
  std::string pull_request;  // digits or XXX; empty: not given
};

// The options that every sub-command takes.
void add_changelog_options(CLI::App& command, ChangelogOptions& options);
void add_pull_request_option(CLI::App& command, ChangelogOptions& options, const std::string& prose);

// Where the changelog and the matrix are; nothing needs to exist.
struct ChangelogPlace {
  std::filesystem::path file;
  std::filesystem::path root;       // the checkout, or the current folder
  std::vector<std::string> matrix;  // from `root`, or as given
};
ChangelogPlace find_changelog(const Context& context, const ChangelogOptions& options);

// The repository that was named, by an option or by the environment; empty if none was.
diag::Result<changelog::RepositoryAddress> named_repository(const ChangelogOptions& options);

// Whose rules hold for links. Fails for text that is no repository.
diag::Result<changelog::Policy> policy_of(const ChangelogOptions& options);

// The text of a file; nothing if there is no such file.
diag::Result<std::optional<changelog::Revision>> read_changelog_file(const std::filesystem::path& file);

void add_changelog_check(CLI::App& changelog_command, Action& action);
void add_changelog_edits(CLI::App& changelog_command, Action& action);

}  // namespace sweep::cli
