// `plan summary`: the matrix as a maintainer reviews it.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "orchestrator/cli/plan_output.h"
#include "orchestrator/cli/plan_revision.h"
#include "orchestrator/pipeline/locations.h"
#include "orchestrator/plan/summary.h"
#include "orchestrator/report/matrix_summary.h"

namespace sweep::cli {

namespace {

namespace fs = std::filesystem;
using report::Language;

struct MatrixSummaryOptions {
  std::string base, head;
  bool tip = false;
  bool markdown = false;
  std::vector<std::string> languages{"en"};
};

// Both revisions; no base if none was asked for.
struct Revisions {
  schema::Checkout head;
  std::optional<schema::Checkout> base;
};

diag::Result<Revisions> read_revisions(const Context& context, const MatrixSummaryOptions& options) {
  const auto place = find_revision_place(context);
  if (!place) {  // the matrix alone needs no repository
    const auto locations = pipeline::find_locations(context.root);
    if (!locations || !options.base.empty() || !options.head.empty()) return diag::fail(place.error());
    return Revisions{schema::load_checkout(locations->root), {}};
  }
  const git::Repository* repository = &place->repository;
  const RevisionReader reader(*repository, place->folder, {});
  std::optional<git::Commit> at;
  if (!options.head.empty()) {
    auto head = repository->resolve(options.head);
    if (!head) return diag::fail(std::move(head).error());
    at = *std::move(head);
  }
  auto loaded = reader.load(at, "");
  if (!loaded) return diag::fail(std::move(loaded).error());
  Revisions revisions{*std::move(loaded), {}};
  if (options.base.empty()) return revisions;
  const auto head = at ? diag::Result<git::Commit>(*at) : repository->resolve("HEAD");
  if (!head) return diag::fail(head.error());
  auto from = repository->resolve(options.base);
  if (from && !options.tip) from = repository->merge_base(*from, *head);
  if (!from) return diag::fail(from.error());
  auto base = reader.load(*from, from->short_id() + ":");
  if (!base) return diag::fail(std::move(base).error());
  revisions.base = *std::move(base);
  return revisions;
}

ExitCode summarise(const Context& context, const MatrixSummaryOptions& options) {
  auto revisions = read_revisions(context, options);
  if (!revisions) return fail(context, revisions.error());
  demote_unknown_runners(revisions->head.diagnostics);
  if (revisions->head.diagnostics.has_errors()) {
    context.console.report(revisions->head.diagnostics, revisions->head.sources);
    return ExitCode::kProblems;
  }
  if (revisions->base && revisions->base->diagnostics.has_errors() && !context.quiet)
    context.console.err("the base has errors of its own: what it states wrongly counts as absent\n");
  const plan::MatrixSummary summary = plan::summarise(revisions->head, revisions->base ? &*revisions->base : nullptr);
  if (context.console.format() == Format::kJson) {
    context.console.out(
        report::matrix_summary_json(summary).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    return ExitCode::kGood;
  }
  const bool text = !options.markdown && ::isatty(STDOUT_FILENO) == 1;
  std::string out;
  for (const std::string& language : options.languages)
    out += (out.empty() ? "" : "\n") +
           report::matrix_summary(summary, text ? report::TableStyle::kText : report::TableStyle::kMarkdown,
                                  language == "zh" ? Language::kChinese : Language::kEnglish);
  context.console.out(out);
  return ExitCode::kGood;
}

}  // namespace

void add_plan_summary(CLI::App& plan_command, Action& action) {
  auto options = std::make_shared<MatrixSummaryOptions>();
  CLI::App* command = plan_command.add_subcommand(
      "summary", "What would run where, what a change adds or alters, what is out of the ordinary");
  command->footer(
      "Examples:\n"
      "  sweepctl plan summary --base origin/main                 the working tree against where it left main\n"
      "  sweepctl plan summary --base origin/main --lang en,zh >> \"$GITHUB_STEP_SUMMARY\"\n\n"
      "Markdown where stdout is no terminal, else aligned text; --format json for programs. GPU-hours are an upper "
      "bound\n"
      "from the time limits that recipes state, and unknown without one.");
  command->add_option("--base", options->base, "Also compare with this revision")->type_name("REF");
  command->add_option("--head", options->head, "Revision to summarise")
      ->type_name("REF")
      ->default_str("the working tree");
  command->add_flag("--tip", options->tip, "Compare with the base itself, not with the merge base");
  command->add_flag("--markdown", options->markdown, "Markdown on a terminal, too");
  command->add_option("--lang", options->languages, "Languages, in this order")
      ->delimiter(',')
      ->check(CLI::IsMember({"en", "zh"}).description(""))
      ->type_name("en,zh")
      ->default_str("en");
  command->callback(
      [options, &action] { action = [options](Context& context) { return summarise(context, *options); }; });
}

}  // namespace sweep::cli
