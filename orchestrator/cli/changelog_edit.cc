#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <utility>

#include "orchestrator/base/file.h"
#include "orchestrator/changelog/append.h"
#include "orchestrator/changelog/history.h"
#include "orchestrator/changelog/matrix_names.h"
#include "orchestrator/cli/changelog.h"
#include "orchestrator/diag/rules/changelog.h"
#include "orchestrator/diag/rules/cli.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/schema/choices.h"

namespace sweep::cli {

namespace {

using changelog::Revision;

struct AddOptions : ChangelogOptions {
  changelog::NewEntry entry;
  int64_t eval_min_prefill_ep = 0;
  bool dry_run = false;
};

struct CanonicalizeOptions : ChangelogOptions {
  std::string base;
};

struct ResolveOptions : ChangelogOptions {
  std::string main_side;
};

ExitCode report(const Context& context, const diag::Diagnostics& diagnostics, const std::vector<Revision>& revisions) {
  diag::SourceMap sources;
  for (const Revision& revision : revisions) sources.add(revision.name, revision.text);
  context.console.report(diagnostics, sources);
  return diagnostics.has_errors() ? ExitCode::kProblems : ExitCode::kGood;
}

diag::Result<diag::Done> write(const std::filesystem::path& file, const std::string& text) {
  const auto folder = file.parent_path();
  if (!folder.empty())
    if (const auto made = base::make_directories(folder); !made)
      return diag::fail(diag::rule::file_unwritable, made.error().text());
  // A link stays one: what it leads to is replaced.
  std::error_code dangling;
  const auto target = std::filesystem::canonical(file, dangling);
  const auto written = base::write_file_atomic(dangling ? file : target, text);
  if (!written) return diag::fail(diag::rule::file_unwritable, written.error().text());
  return diag::Done{};
}

// ---- add ----

// The link of the entry, and the pull request that it must agree with.
diag::Result<changelog::Policy> link_of(AddOptions& options, const std::optional<Revision>& current) {
  auto policy = policy_of(options);
  if (!policy) return policy;
  const std::string& given = options.entry.pr_link;
  if (!given.empty() && !options.pull_request.empty())
    return diag::fail(diag::rule::cli_usage, "--pr-link and --pr exclude each other", "give one of them");
  if (!given.empty()) {
    const auto link = changelog::parse_link(given);
    policy->pull_request = link ? link->number : std::string(schema::kPlaceholderLink);
    return policy;
  }
  options.entry.pr_link = schema::kPlaceholderLink;
  if (!policy->pull_request) policy->pull_request = schema::kPlaceholderLink;
  if (*policy->pull_request == schema::kPlaceholderLink) return policy;
  if (policy->repository.empty() && current) {
    diag::Diagnostics ignored;
    policy->repository =
        changelog::repository_of(schema::read_changelog(current->name, current->text, ignored).entries);
  }
  if (policy->repository.empty())
    return diag::fail(diag::rule::cli_usage, "the repository of the link is not known",
                      "name it with `--repository OWNER/NAME`, or give the whole link with `--pr-link`");
  options.entry.pr_link = changelog::link_to(policy->repository, *policy->pull_request);
  return policy;
}

// The keys of the entry just written must select something.
void check_keys(const ChangelogPlace& place, const Revision& written, diag::Diagnostics& out) {
  const std::vector<std::string> names = changelog::matrix_names(place.root, place.matrix, out);
  if (names.empty()) return;
  const std::vector<std::string_view> views(names.begin(), names.end());
  diag::Diagnostics ignored;
  const auto file = schema::read_changelog(written.name, written.text, ignored);
  schema::check_entry_keys(file.entries.back(), views, out);
}

ExitCode add(const Context& context, AddOptions options) {
  ChangelogPlace place = find_changelog(context, options);
  for (std::string& path : place.matrix)
    if (!options.config_files.empty()) path = std::filesystem::absolute(path).string();
  const auto current = read_changelog_file(place.file);
  if (!current) return fail(context, current.error());
  if (options.eval_min_prefill_ep != 0) options.entry.eval_min_prefill_ep = options.eval_min_prefill_ep;
  const auto policy = link_of(options, *current);
  if (!policy) return fail(context, policy.error());
  diag::Diagnostics diagnostics;
  const auto text = changelog::append_entry(*current, options.entry, *policy, diagnostics);
  std::vector<Revision> revisions;
  if (text) {
    revisions.push_back({*current ? (*current)->name : "changelog", *text});
    check_keys(place, revisions.back(), diagnostics);
  } else if (*current) {
    revisions.push_back(**current);
  }
  const size_t old_size = *current ? (*current)->text.size() : 0;
  if (!diagnostics.has_errors() && !options.dry_run)
    if (const auto written = write(place.file, *text); !written) return fail(context, written.error());
  const ExitCode code = report(context, diagnostics, revisions);
  if (code == ExitCode::kGood && context.console.format() != Format::kJson)
    context.console.out(fmt::format("{}{}:\n{}", place.file.generic_string(),
                                    options.dry_run ? " would get" : ": added", text->substr(old_size)));
  return code;
}

void add_add(CLI::App& changelog_command, Action& action) {
  auto options = std::make_shared<AddOptions>();
  CLI::App* command = changelog_command.add_subcommand("add", "Append one entry; existing bytes stay as they are");
  command->footer(
      "Examples:\n"
      "  sweepctl changelog add --config-keys 'dsv41flash-*' --description \"Raise the image to v0.5.17\"\n"
      "  sweepctl changelog add --config-keys a b --description \"First line\" \"Second line\" --pr 123\n"
      "  sweepctl changelog add --config-keys a --description \"More concurrencies\" --append-only --dry-run\n\n"
      "The entry is checked before anything is written: the file by its own rules, the keys against the matrix, the\n"
      "link against the repository. Exit codes: 0 written, 1 problems and nothing written, 3 the file cannot be "
      "written.");
  command->add_option("--config-keys", options->entry.config_keys, "Matrix entries; * matches anything")
      ->required()
      ->type_name("KEY...")
      ->default_str("");
  command->add_option("--description", options->entry.description, "What changed; one list item each")
      ->required()
      ->type_name("TEXT...")
      ->default_str("");
  command->add_option("--pr-link", options->entry.pr_link, "The whole link")->type_name("LINK")->default_str("XXX");
  add_pull_request_option(*command, *options, "The pull request, instead of the whole link");
  command->add_flag("--evals-only", options->entry.evals_only, "Run evaluations only");
  command->add_flag("--all-evals", options->entry.all_evals, "Run evaluations of every point");
  command->add_flag("--append-only", options->entry.append_only, "The change only adds points");
  command
      ->add_option("--eval-min-prefill-ep", options->eval_min_prefill_ep,
                   "Evaluate only points with at least this prefill ep")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30).description(""))
      ->type_name("N")
      ->default_str("");
  const auto& kinds = schema::ChoiceNames<schema::ScenarioKind>::kNames;
  command->add_option("--scenario-type", options->entry.scenario_types, "Scenario kinds")
      ->check(CLI::IsMember(std::vector<std::string>(kinds.begin(), kinds.end())).description(""))
      ->type_name("KIND...")
      ->default_str("all");
  command->add_option("--config-files", options->config_files, "Matrix files or folders that keys must match")
      ->type_name("FILE...")
      ->default_str("matrix/, else configs/");
  command->add_flag("--dry-run", options->dry_run, "Show the entry, write nothing");
  add_changelog_options(*command, *options);
  command->callback([options, &action] { action = [options](Context& context) { return add(context, *options); }; });
}

// ---- canonicalize ----

ExitCode canonicalize(const Context& context, const CanonicalizeOptions& options) {
  const auto policy = policy_of(options);
  if (!policy) return fail(context, policy.error());
  if (*policy->pull_request == schema::kPlaceholderLink)
    return fail(context, diag::make(diag::rule::cli_usage, "--pr must be a number here", "a link needs the number"));
  const ChangelogPlace place = find_changelog(context, options);
  const auto repository = git::Repository::open(place.root, context.stop);
  if (!repository) return fail(context, repository.error());
  const auto file = repository->path_in_tree(place.file);
  if (!file)
    return fail(context, diag::make(diag::rule::cli_usage,
                                    fmt::format("\"{}\" lies outside the repository", place.file.string())));
  const auto history = changelog::read_history(*repository, {.file = *file, .base = options.base});
  if (!history) return fail(context, history.error());
  if (!history->head)
    return fail(context, diag::make_at(diag::rule::file_unreadable, {*file}, "the file does not exist"));
  if (policy->repository.empty() && !history->base)
    return fail(context, diag::make(diag::rule::cli_usage, "the repository of the links is not known",
                                    "name it with `--repository OWNER/NAME`"));
  diag::Diagnostics diagnostics;
  const auto result = changelog::canonicalize(history->base, *history->head, *policy, diagnostics);
  if (result && result->rewritten > 0)
    if (const auto written = write(place.file, result->text); !written) return fail(context, written.error());
  std::vector<Revision> revisions{*history->head};
  if (history->base) revisions.push_back(*history->base);
  const ExitCode code = report(context, diagnostics, revisions);
  if (code == ExitCode::kGood && context.console.format() != Format::kJson)
    context.console.out(
        fmt::format("{}: {} placeholder{} rewritten\n", *file, result->rewritten, result->rewritten == 1 ? "" : "s"));
  return code;
}

void add_canonicalize(CLI::App& changelog_command, Action& action) {
  auto options = std::make_shared<CanonicalizeOptions>();
  CLI::App* command = changelog_command.add_subcommand(
      "canonicalize", "Write the pull request's link where its new entries still say XXX");
  command->footer(
      "Example:\n"
      "  sweepctl changelog canonicalize --base origin/main --pr 123\n\n"
      "Placeholders of entries that the base has already stay: they are history.");
  command->add_option("--base", options->base, "Revision that the change is made against")
      ->required()
      ->type_name("REF");
  command->add_option("--pr", options->pull_request, "The pull request")
      ->required()
      ->type_name("N")
      ->check(CLI::PositiveNumber.description(""));
  add_changelog_options(*command, *options);
  command->callback(
      [options, &action] { action = [options](Context& context) { return canonicalize(context, *options); }; });
}

// ---- resolve-conflict ----

// Main is what was merged into the branch, or, while commits are replayed, what they are replayed onto.
git::Stage main_stage(const git::Repository& repository, const std::string& asked) {
  if (asked == "ours") return git::Stage::kOurs;
  if (asked == "theirs") return git::Stage::kTheirs;
  return repository.resolve("MERGE_HEAD") ? git::Stage::kTheirs : git::Stage::kOurs;
}

ExitCode resolve(const Context& context, const ResolveOptions& options) {
  auto policy = policy_of(options);
  if (!policy) return fail(context, policy.error());
  if (!policy->pull_request) policy->pull_request = schema::kPlaceholderLink;
  const ChangelogPlace place = find_changelog(context, options);
  const auto repository = git::Repository::open(place.root, context.stop);
  if (!repository) return fail(context, repository.error());
  const auto file = repository->path_in_tree(place.file).value_or(place.file.generic_string());
  const git::Stage main = main_stage(*repository, options.main_side);
  const git::Stage branch = main == git::Stage::kOurs ? git::Stage::kTheirs : git::Stage::kOurs;
  const auto base_text = repository->read_stage(git::Stage::kBase, file);
  const auto main_text = repository->read_stage(main, file);
  const auto branch_text = repository->read_stage(branch, file);
  for (const auto* text : {&base_text, &main_text, &branch_text})
    if (!*text) return fail(context, text->error());
  if (!*main_text || !*branch_text)
    return fail(context, diag::make_at(diag::rule::changelog_no_conflict, {file},
                                       "git has no two sides of this file in conflict",
                                       "`git status` shows what is in conflict; name the file with `--file`"));
  changelog::Conflict conflict{.base = std::nullopt,
                               .main = {fmt::format("main:{}", file), **main_text},
                               .branch = {fmt::format("branch:{}", file), **branch_text}};
  if (*base_text) conflict.base = Revision{fmt::format("base:{}", file), **base_text};
  diag::Diagnostics diagnostics;
  const auto result = changelog::resolve_conflict(conflict, *policy, diagnostics);
  if (result)
    if (const auto written = write(repository->root() / file, result->text); !written)
      return fail(context, written.error());
  std::vector<Revision> revisions{conflict.main, conflict.branch};
  if (conflict.base) revisions.push_back(*conflict.base);
  const ExitCode code = report(context, diagnostics, revisions);
  if (code == ExitCode::kGood && context.console.format() != Format::kJson)
    context.console.out(fmt::format(
        "{}: {}'s side kept as main, {} appended, {} dropped that main has, {} corrected; now `git add {}`\n", file,
        main == git::Stage::kOurs ? "our" : "their", result->appended, result->dropped, result->corrected, file));
  return code;
}

void add_resolve(CLI::App& changelog_command, Action& action) {
  auto options = std::make_shared<ResolveOptions>();
  CLI::App* command = changelog_command.add_subcommand(
      "resolve-conflict", "Keep main's changelog byte for byte and put the branch's entries behind it");
  command->footer(
      "Example:\n"
      "  git merge origin/main; sweepctl changelog resolve-conflict && git add changelog/perf-changelog.yaml\n\n"
      "Entries that main has already, under whatever link, are not repeated; links that the branch corrected are\n"
      "corrected again unless main did so. A side that changed history is refused.");
  command->add_option("--main", options->main_side, "Which side of the conflict is main")
      ->check(CLI::IsMember({"ours", "theirs"}).description(""))
      ->type_name("ours|theirs")
      ->default_str("theirs in a merge, ours in a rebase");
  add_pull_request_option(*command, *options, "The pull request whose links are checked");
  add_changelog_options(*command, *options);
  command->callback(
      [options, &action] { action = [options](Context& context) { return resolve(context, *options); }; });
}

}  // namespace

void add_changelog_edits(CLI::App& changelog_command, Action& action) {
  add_add(changelog_command, action);
  add_canonicalize(changelog_command, action);
  add_resolve(changelog_command, action);
}

}  // namespace sweep::cli
