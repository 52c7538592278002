#include "orchestrator/cli/changelog.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>

#include "orchestrator/base/file.h"
#include "orchestrator/cli/layout.h"
#include "orchestrator/diag/rules/cli.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/pipeline/locations.h"
#include "orchestrator/yaml/parse.h"

namespace sweep::cli {

namespace {

namespace fs = std::filesystem;

// The nearest folder from the current one upwards that has a changelog; it need not be a checkout of ours.
std::optional<fs::path> folder_with_changelog() {
  std::error_code error;
  for (fs::path folder = fs::current_path(error); !error; folder = folder.parent_path()) {
    std::error_code ignored;
    for (const char* name : kChangelogFiles)
      if (fs::exists(folder / name, ignored)) return folder;
    if (folder == folder.parent_path()) break;
  }
  return std::nullopt;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::string check_pull_request(const std::string& text) {
  if (text == schema::kPlaceholderLink) return {};
  if (!text.empty() && text[0] != '0' && text.find_first_not_of("0123456789") == std::string::npos) return {};
  return "expected the number of a pull request, or XXX, found \"" + text + "\"";
}

}  // namespace

void add_changelog_options(CLI::App& command, ChangelogOptions& options) {
  command.add_option("--file", options.file, "The changelog")
      ->type_name("PATH")
      ->default_str("changelog/perf-changelog.yaml, else perf-changelog.yaml");
  command.add_option("--repository", options.repository, "Repository that new links name")
      ->type_name("OWNER/NAME")
      ->default_str("GITHUB_REPOSITORY, else the one that the links so far agree on");
}

void add_pull_request_option(CLI::App& command, ChangelogOptions& options, const std::string& prose) {
  command.add_option("--pr", options.pull_request, prose)->check(check_pull_request)->type_name("N|XXX");
}

ChangelogPlace find_changelog(const Context& context, const ChangelogOptions& options) {
  std::error_code ignored;
  ChangelogPlace place;
  const auto nearest = context.root ? std::nullopt : folder_with_changelog();
  const auto locations = pipeline::find_locations(context.root);
  place.root = nearest ? *nearest : locations ? locations->root : context.root.value_or(fs::current_path(ignored));
  if (!options.file.empty()) {
    place.file = options.file;
    if (place.file.is_relative() && context.root && !fs::exists(place.file, ignored))
      place.file = *context.root / place.file;
  } else {
    place.file = place.root / kChangelogFiles[0];
    for (const char* name : kChangelogFiles)
      if (!fs::exists(place.file, ignored) && fs::exists(place.root / name, ignored)) place.file = place.root / name;
  }
  place.matrix = options.config_files;
  if (!place.matrix.empty()) return place;
  for (const char* folder : kMatrixFolders)
    if (place.matrix.empty() && fs::is_directory(place.root / folder, ignored)) place.matrix.emplace_back(folder);
  return place;
}

diag::Result<changelog::RepositoryAddress> named_repository(const ChangelogOptions& options) {
  const std::string server = variable("GITHUB_SERVER_URL");
  const bool by_option = !options.repository.empty();
  const std::string name = by_option ? options.repository : variable("GITHUB_REPOSITORY");
  if (name.empty()) return changelog::RepositoryAddress();
  const auto address = changelog::parse_repository(name, server.empty() ? "https://github.com" : server);
  if (address) return *address;
  return diag::fail(diag::rule::cli_usage,
                    fmt::format("{} must be OWNER/NAME or https://HOST/OWNER/NAME, found \"{}\"",
                                by_option ? "--repository" : "GITHUB_REPOSITORY", name),
                    "run `sweepctl explain changelog/link-repository`");
}

diag::Result<changelog::Policy> policy_of(const ChangelogOptions& options) {
  auto repository = named_repository(options);
  if (!repository) return diag::fail(std::move(repository).error());
  changelog::Policy policy{.repository = *std::move(repository)};
  if (!options.pull_request.empty()) policy.pull_request = options.pull_request;
  return policy;
}

diag::Result<std::optional<changelog::Revision>> read_changelog_file(const fs::path& file) {
  auto text = base::read_file(file, yaml::Limits().bytes);
  if (text) return std::optional(changelog::Revision{file.generic_string(), *std::move(text)});
  if (text.error().error_number == ENOENT) return std::optional<changelog::Revision>();
  return diag::fail(diag::make_at(diag::rule::file_unreadable, {file.generic_string()}, text.error().text()));
}

void add_changelog(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("changelog", "Check that the changelog only grew, and add to it");
  command->footer(
      "Examples:\n"
      "  sweepctl changelog check --base origin/main --pr 123     what this working tree adds\n"
      "  sweepctl changelog add --config-keys 'dsv41*' --description \"Raise the image to v0.5.17\"\n"
      "  sweepctl changelog canonicalize --base origin/main --pr 123\n"
      "  sweepctl changelog resolve-conflict                      after `git merge main` stopped at the changelog");
  command->require_subcommand(1);
  add_changelog_check(*command, action);
  add_changelog_edits(*command, action);
}

}  // namespace sweep::cli
