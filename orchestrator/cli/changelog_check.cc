#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "orchestrator/changelog/history.h"
#include "orchestrator/changelog/matrix_names.h"
#include "orchestrator/cli/changelog.h"
#include "orchestrator/diag/render.h"
#include "orchestrator/diag/rules/changelog.h"
#include "orchestrator/diag/rules/changes.h"
#include "orchestrator/diag/rules/cli.h"
#include "orchestrator/diag/rules/file.h"

namespace sweep::cli {

namespace {

using changelog::Change;
using changelog::ChangeKind;
using changelog::Revision;

constexpr size_t kMostKeysShown = 8;  // in text; JSON has all

struct CheckOptions : ChangelogOptions {
  std::string base;
  std::string head;
  bool tip = false;
  std::vector<std::string> two_files;
};

// Everything that the check found out, for the output.
struct Checked {
  std::string file;
  std::optional<Revision> base;
  std::optional<Revision> head;
  std::string base_commit, head_commit;  // empty: two files, or the working tree
  size_t behind = 0;
  bool has_matrix = false;
  std::vector<std::string> matrix;
  std::optional<changelog::Comparison> comparison;
  diag::Diagnostics diagnostics;

  std::vector<std::string_view> matrix_views() const { return {matrix.begin(), matrix.end()}; }
};

std::string_view kind_name(ChangeKind kind) {
  switch (kind) {
    case ChangeKind::kAdded:
      return "added";
    case ChangeKind::kCorrected:
      return "corrected";
    case ChangeKind::kInserted:
      return "inserted";
    case ChangeKind::kDeleted:
      return "deleted";
    case ChangeKind::kChanged:
      return "changed";
    case ChangeKind::kMoved:
      return "moved";
  }
  return {};
}

bool is_new(const Change& change) {
  return change.kind == ChangeKind::kAdded || change.kind == ChangeKind::kInserted;
}

const schema::ChangelogEntry& entry_of(const changelog::Comparison& comparison, const Change& change) {
  return change.head ? comparison.head.entries[*change.head] : comparison.base.entries[*change.base];
}

// What an entry selects: matrix entries where the matrix is known, else its keys as written.
std::vector<std::string> selected(const Checked& checked, const schema::ChangelogEntry& entry) {
  std::vector<std::string> result;
  if (checked.has_matrix) {
    const auto names = checked.matrix_views();
    for (const std::string_view name : schema::matched_names(entry, names)) result.emplace_back(name);
  } else {
    for (const schema::Text& key : entry.config_keys) result.push_back(key.value);
  }
  return result;
}

std::vector<std::string> selected_by_new(const Checked& checked) {
  std::vector<std::string> keys;
  for (const Change& change : checked.comparison->changes)
    if (is_new(change))
      for (std::string& key : selected(checked, entry_of(*checked.comparison, change)))
        if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(std::move(key));
  return keys;
}

nlohmann::json to_json(const Checked& checked, const Change& change) {
  const schema::ChangelogEntry& entry = entry_of(*checked.comparison, change);
  nlohmann::json item{{"kind", kind_name(change.kind)},
                      {"index", change.head ? nlohmann::json(*change.head) : nlohmann::json()},
                      {"base_index", change.base ? nlohmann::json(*change.base) : nlohmann::json()},
                      {"pr_link", entry.pr_link.value},
                      {"config_keys", nlohmann::json::array()},
                      {"line", entry.document->line_of(entry.where.begin)}};
  for (const schema::Text& key : entry.config_keys) item["config_keys"].push_back(key.value);
  if (is_new(change)) {
    item["selects"] = selected(checked, entry);
    item["append_only"] = entry.append_only.value;
    item["evals_only"] = entry.evals_only.value;
    item["all_evals"] = entry.all_evals.value;
  }
  return item;
}

void print_json(const Context& context, const Checked& checked) {
  nlohmann::json document = diag::to_json(checked.diagnostics);
  document["schema_version"] = 1;
  document["file"] = checked.file;
  document["accepted"] = !checked.diagnostics.has_errors();
  document["base_commit"] = checked.base_commit.empty() ? nlohmann::json() : nlohmann::json(checked.base_commit);
  document["head_commit"] = checked.head_commit.empty() ? nlohmann::json() : nlohmann::json(checked.head_commit);
  document["behind"] = checked.behind;
  document["changes"] = nlohmann::json::array();
  document["keys"] = nlohmann::json::array();
  document["deleted_links"] = nlohmann::json::array();
  document["added_at_index"] = nullptr;  // of the first new entry
  size_t added = 0;
  if (checked.comparison) {
    for (const Change& change : checked.comparison->changes) {
      document["changes"].push_back(to_json(checked, change));
      if (change.kind == ChangeKind::kAdded) ++added;
      if (is_new(change) && document["added_at_index"].is_null()) document["added_at_index"] = *change.head;
      if (change.kind == ChangeKind::kDeleted)
        document["deleted_links"].push_back(entry_of(*checked.comparison, change).pr_link.value);
    }
    document["keys"] = selected_by_new(checked);
  }
  document["added"] = added;
  context.console.out(document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void print_text(const Context& context, const Checked& checked, const diag::SourceMap& sources) {
  context.console.report(checked.diagnostics, sources);
  if (!checked.comparison) return;
  if (!checked.comparison->head.is_list()) {
    context.console.out(fmt::format("{}: problems found, its entries could not be read\n", checked.file));
    return;
  }
  size_t added = 0;
  size_t corrected = 0;
  std::string lines;
  for (const Change& change : checked.comparison->changes) {
    if (change.kind == ChangeKind::kCorrected) ++corrected;
    if (change.kind != ChangeKind::kAdded) continue;
    ++added;
    const schema::ChangelogEntry& entry = entry_of(*checked.comparison, change);
    const std::vector<std::string> keys = selected(checked, entry);
    lines += fmt::format("  + {}\n", changelog::name_of(entry, *change.head));
    if (!checked.has_matrix) continue;
    const size_t shown = std::min(keys.size(), kMostKeysShown);
    lines += fmt::format("    selects {} matrix entr{}: {}{}\n", keys.size(), keys.size() == 1 ? "y" : "ies",
                         fmt::join(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                         keys.size() > shown ? fmt::format(" and {} more", keys.size() - shown) : "");
  }
  const size_t before = checked.comparison->base.entries.size();
  context.console.out(fmt::format(
      "{}: {} added behind {}{}: {}\n{}", checked.file, added == 1 ? "1 entry" : fmt::format("{} entries", added),
      before, corrected == 0 ? "" : fmt::format(", {} link{} corrected", corrected, corrected == 1 ? "" : "s"),
      checked.diagnostics.has_errors() ? "problems found" : "append-only", lines));
}

// What `plan changes` would refuse later: keys that match nothing, and a change of two kinds.
void check_selection(Checked& checked) {
  const auto names = checked.matrix_views();
  const schema::ChangelogEntry* regular = nullptr;
  const schema::ChangelogEntry* append_only = nullptr;
  for (const Change& change : checked.comparison->changes) {
    if (!is_new(change)) continue;
    const schema::ChangelogEntry& entry = entry_of(*checked.comparison, change);
    if (checked.has_matrix) schema::check_entry_keys(entry, names, checked.diagnostics);
    (entry.append_only.value ? append_only : regular) = &entry;
  }
  if (regular == nullptr || append_only == nullptr) return;
  diag::Diagnostic d =
      diag::make_at(diag::rule::changes_mixed_modes, append_only->document->span(append_only->append_only.where),
                    "append-only and regular entries are added in one change", "make it two changes");
  d.notes.push_back({"a regular entry", regular->document->span(regular->where)});
  checked.diagnostics.add(std::move(d));
}

// The matrix at the head; git's answer, if there is no working tree to look into.
std::optional<diag::Diagnostic> read_matrix(const git::Repository& repository, const std::optional<git::Commit>& at,
                                            const ChangelogPlace& place, Checked& checked) {
  if (place.matrix.empty()) return std::nullopt;
  if (!at) {
    checked.matrix = changelog::matrix_names(place.root, place.matrix, checked.diagnostics);
  } else {
    std::vector<std::string> paths;
    for (const std::string& path : place.matrix)
      if (auto in_tree = repository.path_in_tree(place.root / path)) paths.push_back(*std::move(in_tree));
    auto names = changelog::matrix_names(repository, *at, paths, checked.diagnostics);
    if (!names) return std::move(names).error();
    checked.matrix = *std::move(names);
  }
  checked.has_matrix = !checked.matrix.empty();
  return std::nullopt;
}

std::optional<diag::Diagnostic> read_revisions(const Context& context, const CheckOptions& options, Checked& checked) {
  ChangelogPlace place = find_changelog(context, options);
  for (std::string& path : place.matrix)
    if (!options.config_files.empty()) path = std::filesystem::absolute(path).string();
  const auto repository = git::Repository::open(place.root, context.stop);
  if (!repository) return repository.error();
  const auto file = repository->path_in_tree(place.file);
  if (!file)
    return diag::make(
        diag::rule::cli_usage,
        fmt::format("\"{}\" lies outside the repository at \"{}\"", place.file.string(), repository->root().string()),
        "name the file with `--file`, or the checkout with `--root`");
  changelog::HistoryQuestion question{.file = *file, .base = options.base, .tip = options.tip};
  if (!options.head.empty()) question.head = options.head;
  auto history = changelog::read_history(*repository, question);
  if (!history) return std::move(history).error();
  checked.file = *file;
  checked.base_commit = history->from.id();
  if (history->to) checked.head_commit = history->to->id();
  checked.behind = changelog::check_behind(*history, question, checked.diagnostics);
  if (auto problem = read_matrix(*repository, history->to, place, checked)) return problem;
  checked.base = std::move(history->base);
  checked.head = std::move(history->head);
  return std::nullopt;
}

std::optional<diag::Diagnostic> read_two_files(const CheckOptions& options, Checked& checked) {
  for (size_t i = 0; i < 2; ++i) {
    auto revision = read_changelog_file(options.two_files[i]);
    if (!revision) return std::move(revision).error();
    if (!*revision)
      return diag::make_at(diag::rule::file_unreadable, {options.two_files[i]}, "the file does not exist");
    (i == 0 ? checked.base : checked.head) = *std::move(revision);
  }
  checked.file = options.two_files[1];
  checked.matrix = changelog::matrix_names(std::filesystem::current_path(), options.config_files, checked.diagnostics);
  checked.has_matrix = !checked.matrix.empty();
  return std::nullopt;
}

ExitCode check(const Context& context, const CheckOptions& options) {
  const bool two_files = !options.two_files.empty();
  if (two_files ? options.two_files.size() != 2 || !options.base.empty() || !options.head.empty()
                : options.base.empty())
    return fail(context, diag::make(diag::rule::cli_usage, "either --base REF or two files are needed",
                                    "run `sweepctl changelog check --help`"));
  const auto policy = policy_of(options);
  if (!policy) return fail(context, policy.error());
  Checked checked;
  const auto problem = two_files ? read_two_files(options, checked) : read_revisions(context, options, checked);
  if (problem) return fail(context, *problem);

  diag::SourceMap sources;
  if (checked.base) sources.add(checked.base->name, checked.base->text);
  if (checked.head) sources.add(checked.head->name, checked.head->text);
  if (!checked.head) {
    checked.diagnostics.add(checked.base ? diag::make_at(diag::rule::changelog_file_deleted, {checked.file},
                                                         "the base has this changelog, the head has not", "restore it")
                                         : diag::make_at(diag::rule::file_unreadable, {checked.file},
                                                         "neither the base nor the head has this file",
                                                         "name it with `--file`"));
  } else {
    checked.comparison = changelog::compare(checked.base, *checked.head, *policy, checked.diagnostics);
    check_selection(checked);
  }
  checked.diagnostics.normalise();
  if (context.console.format() == Format::kJson)
    print_json(context, checked);
  else
    print_text(context, checked, sources);
  return checked.diagnostics.has_errors() ? ExitCode::kProblems : ExitCode::kGood;
}

}  // namespace

void add_changelog_check(CLI::App& changelog_command, Action& action) {
  auto options = std::make_shared<CheckOptions>();
  CLI::App* command = changelog_command.add_subcommand(
      "check", "Whether the changelog only grew, byte for byte, and what the new entries select");
  command->footer(
      "Examples:\n"
      "  sweepctl changelog check --base origin/main --pr 123         the working tree, on pull request 123\n"
      "  sweepctl changelog check --base origin/main --pr XXX         before the pull request has a number\n"
      "  sweepctl changelog check --base HEAD^1 --head HEAD --pr 123  the merge commit that Actions checks out, depth "
      "2\n"
      "  sweepctl changelog check --base HEAD~1 --head HEAD --tip     a commit of main: full links only\n"
      "  sweepctl changelog check old.yaml new.yaml                   two files, without git\n\n"
      "The head is compared with the point where it left the base: a branch that is behind is told so, not blamed for\n"
      "entries it never had. In a shallow clone without that point the message says what to fetch.\n"
      "Keys of new entries must match the head's matrix. Exit codes: 0 append-only (warnings allowed), 1 problems,\n"
      "2 wrong usage, 3 git could not answer.");
  command->add_option("files", options->two_files, "Two files to compare instead of two revisions")
      ->type_name("BASE HEAD")
      ->expected(0, 2);
  command->add_option("--base", options->base, "Revision that the change is made against")->type_name("REF");
  command->add_option("--head", options->head, "Revision with the change")
      ->type_name("REF")
      ->default_str("the working tree");
  command->add_flag("--tip", options->tip, "Compare with the base itself, not with the merge base");
  add_pull_request_option(*command, *options,
                          "The pull request; XXX before it has a number. Without it the rules of the main branch hold");
  command->add_option("--config-files", options->config_files, "Matrix files or folders that keys must match")
      ->type_name("FILE...")
      ->default_str("matrix/, else configs/");
  add_changelog_options(*command, *options);
  command->callback([options, &action] { action = [options](Context& context) { return check(context, *options); }; });
}

}  // namespace sweep::cli
