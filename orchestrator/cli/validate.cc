#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/cli/command.h"
#include "orchestrator/pipeline/locations.h"
#include "orchestrator/schema/checkout.h"

namespace sweep::cli {

namespace {

struct ValidateOptions {
  std::vector<std::string> paths;
  std::string kind;
};

ExitCode validate(const Context& context, const ValidateOptions& options) {
  std::filesystem::path root;
  const auto locations = pipeline::find_locations(context.root);
  if (locations) root = locations->root;
  // Named files can be checked alone, without a checkout around them.
  if (!locations && (options.paths.empty() || context.root)) return fail(context, locations.error());
  schema::Validation validation =
      schema::validate_paths(root, std::vector<std::filesystem::path>(options.paths.begin(), options.paths.end()),
                             schema::parse_choice<schema::FileKind>(options.kind));
  context.console.report(validation.diagnostics, validation.sources);
  if (context.console.format() != Format::kJson && context.console.format() != Format::kSarif)
    context.console.out(fmt::format("{} file{}, {} matrix entries: {}\n", validation.files,
                                    validation.files == 1 ? "" : "s", validation.entries,
                                    validation.diagnostics.has_errors() ? "problems found" : "valid"));
  return validation.diagnostics.has_errors() ? ExitCode::kProblems : ExitCode::kGood;
}

}  // namespace

void add_validate(CLI::App& app, Action& action) {
  auto options = std::make_shared<ValidateOptions>();
  CLI::App* command = app.add_subcommand("validate",
                                         "Check matrix, runners, recipes, acceptance curves, changelog, pins and "
                                         "results: each file and all bindings between "
                                         "them");
  command->footer(
      "Examples:\n"
      "  sweepctl validate                       the whole checkout\n"
      "  sweepctl validate matrix/nvidia.yaml    one file, with its bindings to the rest\n"
      "  sweepctl validate --format json         for programs; --format github for annotations\n"
      "  sweepctl validate --format sarif        for code-scanning services\n"
      "  sweepctl validate runs/X/result.json    whether a result contradicts itself\n\n"
      "All problems are reported in one run. Exit codes: 0 no errors (warnings allowed), 1 errors.");
  command->add_option("paths", options->paths, "Files or folders; without any, the whole checkout")->type_name("PATH");
  command->add_option("--kind", options->kind, "What the files are, instead of recognising it from their content")
      ->type_name(fmt::format("{}", fmt::join(schema::choice_names<schema::FileKind>(), "|")))
      ->check(CLI::IsMember(schema::choice_names<schema::FileKind>()).description(""));
  command->callback(
      [options, &action] { action = [options](Context& context) { return validate(context, *options); }; });
}

}  // namespace sweep::cli
