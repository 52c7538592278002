// `plan changes`: what the changelog entries that a change adds select, read from two revisions.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>

#include "orchestrator/changelog/history.h"
#include "orchestrator/cli/changelog.h"
#include "orchestrator/cli/plan_output.h"
#include "orchestrator/cli/plan_revision.h"
#include "orchestrator/diag/rules/changelog.h"
#include "orchestrator/diag/rules/cli.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/plan/changes.h"

namespace sweep::cli {

namespace {

namespace fs = std::filesystem;
namespace rule = diag::rule;
using changelog::ChangeKind;

struct ChangesOptions {
  std::string base, head;
  bool tip = false;
  std::string changelog_file;
  std::vector<std::string> config_files;
  std::string runner_config;
  std::string pull_request;
  bool trim_conc = false;
  bool all_evals = false;
  bool evals_only = false;
  GithubOptions github;
};

// A path on the command line as git names it: from the current folder, or from the checkout that was named.
diag::Result<std::string> named_path(const RevisionPlace& place, const std::string& path) {
  std::error_code ignored;
  if (auto in_tree = place.repository.path_in_tree(fs::absolute(path, ignored))) return *std::move(in_tree);
  if (fs::path(path).is_relative())
    if (auto in_tree = place.repository.path_in_tree(place.repository.root() / place.folder / path))
      return *std::move(in_tree);
  return diag::fail(rule::cli_usage, fmt::format("\"{}\" lies outside the repository at \"{}\"", path,
                                                 place.repository.root().string()));
}

diag::Result<NamedFiles> named_files(const RevisionPlace& place, const ChangesOptions& options) {
  NamedFiles named;
  for (const std::string& path : options.config_files) {
    auto in_tree = named_path(place, path);
    if (!in_tree) return diag::fail(std::move(in_tree).error());
    named.matrix.push_back(*std::move(in_tree));
  }
  if (options.runner_config.empty()) return named;
  auto in_tree = named_path(place, options.runner_config);
  if (!in_tree) return diag::fail(std::move(in_tree).error());
  named.runners = *std::move(in_tree);
  return named;
}

std::string without_blank_lines(std::string_view text) {
  std::string kept;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view line = text.substr(0, end);
    if (line.find_first_not_of(" \t\r\n") != std::string_view::npos) kept += line;
    text.remove_prefix(end);
  }
  return kept;
}

// What keeps a change from being planned is an error. How its entries are laid out and linked is judged by `changelog
// check`; here it is a warning, and links only matter where the pull request is known. What was wrong with the history
// before the change is a warning, too.
class Relaxation {
 public:
  Relaxation(const changelog::History& history, const changelog::Comparison& comparison, bool judges_links)
      : history_(history), judges_links_(judges_links), is_readable_(comparison.head.is_list()) {
    for (const schema::ChangelogEntry* entry : comparison.entries(ChangeKind::kAdded))
      first_added_ = std::min(first_added_, entry->document->line_of(entry->where.begin));
    only_blanks_ =
        history.base && without_blank_lines(history.head->text).starts_with(without_blank_lines(history.base->text));
  }

  diag::Diagnostics apply(const diag::Diagnostics& found) const {
    diag::Diagnostics kept;
    for (diag::Diagnostic d : found.items()) {
      if (!judges_links_ && is_one_of(d, {rule::changelog_link_form, rule::changelog_link_repository,
                                          rule::changelog_link_number, rule::changelog_link_placeholder}))
        continue;
      const bool layout = is_one_of(d, {rule::changelog_layout, rule::changelog_separator, rule::changelog_file_end}) ||
                          (only_blanks_ && is_one_of(d, {rule::changelog_history_changed}));
      if (d.severity == diag::Severity::kError && (layout || is_of_history(d))) d.severity = diag::Severity::kWarning;
      kept.add(std::move(d));
    }
    return kept;
  }

 private:
  static bool is_one_of(const diag::Diagnostic& d, std::initializer_list<diag::RuleId> rules) {
    return std::find(rules.begin(), rules.end(), d.rule) != rules.end();
  }

  // About a single line of the history, not about what the change did to it.
  bool is_of_history(const diag::Diagnostic& d) const {
    if (!is_readable_ || !d.where || d.where->line == 0 || diag::rule_info(d.rule).slug.starts_with("changelog/"))
      return false;
    if (history_.base && d.where->file == history_.base->name) return true;
    return d.where->file == history_.head->name && d.where->line < first_added_;
  }

  const changelog::History& history_;
  bool judges_links_ = false;
  bool is_readable_ = false;
  bool only_blanks_ = false;
  uint32_t first_added_ = std::numeric_limits<uint32_t>::max();
};

// Everything read and found until the rows are printed.
struct Planned {
  diag::Diagnostics diagnostics;
  diag::SourceMap sources;
  plan::Changes changes;
};

// The entries that the change adds, and the commit that it is compared with.
struct Added {
  git::Commit from;
  std::vector<schema::ChangelogEntry> entries;
};

diag::Result<Added> read_added(const git::Repository& repository, const std::string& file,
                               const ChangesOptions& options, Planned& planned) {
  changelog::HistoryQuestion question{.file = file, .base = options.base, .tip = options.tip};
  if (!options.head.empty()) question.head = options.head;
  const auto history = changelog::read_history(repository, question);
  if (!history) return diag::fail(history.error());
  if (!history->head)
    return diag::fail(history->base ? diag::make_at(rule::changelog_file_deleted, {file},
                                                    "the base has this changelog, the head has not", "restore it")
                                    : diag::make_at(rule::file_unreadable, {file}, "neither revision has this file",
                                                    "name the changelog with --changelog-file"));
  planned.sources.add(history->head->name, history->head->text);
  if (history->base) planned.sources.add(history->base->name, history->base->text);
  changelog::check_behind(*history, question, planned.diagnostics);
  const bool judges_links = !options.pull_request.empty();
  changelog::Policy policy;
  policy.pull_request = judges_links ? options.pull_request : std::string(schema::kPlaceholderLink);
  diag::Diagnostics found;
  const changelog::Comparison comparison = changelog::compare(history->base, *history->head, policy, found);
  planned.diagnostics.add_all(Relaxation(*history, comparison, judges_links).apply(found));
  Added added{history->from, {}};
  for (const schema::ChangelogEntry* entry : comparison.entries(ChangeKind::kAdded)) added.entries.push_back(*entry);
  return added;
}

// The matrix of one revision; what it reports goes to `planned`, of the base only errors.
diag::Result<schema::Checkout> read_matrix(const RevisionReader& reader, const std::optional<git::Commit>& at,
                                           const std::string& prefix, Planned& planned) {
  auto checkout = reader.load(at, prefix);
  if (!checkout) return checkout;
  demote_unknown_runners(checkout->diagnostics);
  for (const diag::Diagnostic& d : checkout->diagnostics.items())
    if (prefix.empty() || d.severity == diag::Severity::kError) planned.diagnostics.add(d);
  planned.sources.add_all(checkout->sources);
  return checkout;
}

diag::Result<Planned> plan(const Context& context, const ChangesOptions& options) {
  const auto place = find_revision_place(context);
  if (!place) return diag::fail(place.error());
  const auto named = named_files(*place, options);
  if (!named) return diag::fail(named.error());
  const RevisionReader reader(place->repository, place->folder, *named);
  std::optional<git::Commit> at;
  if (!options.head.empty()) {
    const auto commit = place->repository.resolve(options.head);
    if (!commit) return diag::fail(commit.error());
    at = *commit;
  }
  const auto file =
      options.changelog_file.empty() ? reader.find_changelog(at) : named_path(*place, options.changelog_file);
  if (!file) return diag::fail(file.error());
  Planned planned;
  const auto added = read_added(place->repository, *file, options, planned);
  if (!added) return diag::fail(added.error());
  const auto head = read_matrix(reader, at, "", planned);
  if (!head) return diag::fail(head.error());
  std::optional<schema::Checkout> base;
  if (plan::has_append_only(added->entries)) {
    auto loaded = read_matrix(reader, added->from, added->from.short_id() + ":", planned);
    if (!loaded) return diag::fail(std::move(loaded).error());
    if (!loaded->entries.empty()) base = *std::move(loaded);
  }
  if (planned.diagnostics.has_errors()) return planned;
  planned.changes = plan::plan_changes({.head = *head,
                                        .base = base ? &*base : nullptr,
                                        .added = added->entries,
                                        .base_ref = options.base,
                                        .head_ref = options.head.empty() ? "working tree" : options.head,
                                        .trim_conc = options.trim_conc,
                                        .all_evals = options.all_evals,
                                        .evals_only = options.evals_only,
                                        .is_chunked = options.github.enabled});
  planned.diagnostics = joined(planned.diagnostics, planned.changes.diagnostics);
  return planned;
}

ExitCode plan_changes(const Context& context, const ChangesOptions& options) {
  auto planned = plan(context, options);
  if (!planned) return fail(context, planned.error());
  const bool refused = planned->diagnostics.has_errors();
  if (refused || context.console.format() != Format::kJson)
    context.console.report(planned->diagnostics, planned->sources);
  if (refused) return ExitCode::kProblems;
  if (!options.github.enabled) {
    context.console.out(planned->changes.json + "\n");
    return ExitCode::kGood;
  }
  return hand_over(context, planned->changes.buckets, options.github,
                   {{"changelog-metadata", planned->changes.metadata}});
}

}  // namespace

void add_plan_changes(CLI::App& plan_command, Action& action) {
  auto options = std::make_shared<ChangesOptions>();
  CLI::App* command = plan_command.add_subcommand(
      "changes", "Rows that the appended changelog entries select, in buckets, as one line of JSON");
  command->footer(
      "Examples:\n"
      "  sweepctl plan changes --base origin/main                     what this working tree would run\n"
      "  sweepctl plan changes --base origin/main --head HEAD --trim-conc --github\n\n"
      "Changelog, matrix and runner file are read at the head, for append-only entries also at the base: the\n"
      "point where the head left it. Both layouts are known: matrix/, changelog/perf-changelog.yaml; and\n"
      "configs/*-master.yaml, configs/runners.yaml, perf-changelog.yaml.\n\n" +
      github_help("  changelog-metadata       {\"base_ref\", \"head_ref\", \"entries\"}\n"));
  command->add_option("--base", options->base, "Revision that the change is made against")
      ->required()
      ->type_name("REF");
  command->add_option("--head", options->head, "Revision with the change")
      ->type_name("REF")
      ->default_str("the working tree");
  command->add_flag("--tip", options->tip, "Compare with the base itself, not with the merge base");
  command->add_option("--changelog-file", options->changelog_file, "The changelog")
      ->type_name("FILE")
      ->default_str("changelog/perf-changelog.yaml, else perf-changelog.yaml");
  command->add_option("--config-files", options->config_files, "Matrix files, in this order")
      ->type_name("FILE...")
      ->default_str("those of the layout");
  command->add_option("--runner-config", options->runner_config, "Runner file")
      ->type_name("FILE")
      ->default_str("that of the layout");
  command->add_option("--pr", options->pull_request, "Number of the pull request, or XXX: also checks the new links")
      ->type_name("N|XXX");
  command->add_flag("--trim-conc", options->trim_conc, "Only the lowest concurrency of each recipe");
  command->add_flag("--all-evals", options->all_evals, "Evaluate every point; throughput stays");
  command->add_flag("--evals-only", options->evals_only, "No throughput");
  add_github_options(*command, options->github);
  command->callback(
      [options, &action] { action = [options](Context& context) { return plan_changes(context, *options); }; });
}

}  // namespace sweep::cli
