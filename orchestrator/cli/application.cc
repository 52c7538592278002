#include "orchestrator/cli/application.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <exception>
#include <string>
#include <vector>

#include "orchestrator/base/edit_distance.h"
#include "orchestrator/cli/command.h"
#include "orchestrator/cli/interrupt.h"
#include "orchestrator/diag/rules/cli.h"

namespace sweep::cli {

namespace {

constexpr const char* kDescription =
    "sweepctl turns a multi-GPU benchmark matrix into results people can trust.\n\n"
    "It validates matrix entries and recipes, verifies the weights against a pinned revision, builds and gates the\n"
    "bundled FlashMLA kernels, serves the model, measures requests of exact lengths, reads the acceptance length back\n"
    "from the engine, and judges whether the result may be used. What was not measured is never printed as if it were.";

constexpr const char* kFooter =
    "Examples:\n"
    "  sweepctl run                          the main job: the embedded DSpark entry, 8192 in / 256 out, on this host\n"
    "  sweepctl validate                     every file of the checkout, all problems at once\n"
    "  sweepctl validate matrix/nvidia.yaml  one file\n"
    "  sweepctl plan test-config --config-files matrix/nvidia.yaml --config-keys 'dsv41*'\n"
    "  sweepctl changelog check --base origin/main --pr 123\n"
    "  sweepctl run ENTRY --dry-run          what a run would do, down to the engine's command line\n"
    "  sweepctl explain schema/unknown-field what a rule is for\n\n"
    "Exit codes:\n"
    "  0 done and good   1 problems in the inputs   2 wrong usage   3 could not run (a retry may help)\n"
    "  4 a kernel gate failed   5 measured but invalid   70 a bug in sweepctl   130/143 interrupted\n\n"
    "Results go to stdout, diagnostics and progress to stderr. NO_COLOR is honoured.";

struct FormatName {
  std::string_view name;
  Format format;
  std::string_view only_of;  // the one sub-command that has it; empty: all
};
constexpr std::array<FormatName, 5> kFormats{{{"human", Format::kHuman, {}},
                                              {"json", Format::kJson, {}},
                                              {"github", Format::kGithub, {}},
                                              {"sarif", Format::kSarif, "validate"},
                                              {"markdown", Format::kMarkdown, "schema"}}};

// Texts that the user may have meant: sub-commands and long options that are valid at this point.
std::vector<std::string> candidates(const CLI::App& app) {
  std::vector<std::string> names;
  const CLI::App* current = &app;
  while (true) {
    for (const CLI::Option* option : current->get_options())
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const CLI::App* sub : current->get_subcommands({})) names.push_back(sub->get_name());
    const std::vector<CLI::App*> chosen = current->get_subcommands();
    if (chosen.empty()) return names;
    current = chosen.front();
  }
}

std::string name_of_chosen(const CLI::App& app) {
  std::string name = "sweepctl";
  const CLI::App* current = &app;
  while (!current->get_subcommands().empty()) {
    current = current->get_subcommands().front();
    name += " " + current->get_name();
  }
  return name;
}

ExitCode usage_error(const CLI::App& app, const CLI::ParseError& error, const Context& context) {
  std::string message = error.what();
  std::string help = fmt::format("run `{} --help`", name_of_chosen(app));
  const std::vector<std::string> extras = app.remaining(true);
  if (!extras.empty()) {
    const std::string& word = extras.front();
    message =
        word.starts_with("-") ? fmt::format("unknown option \"{}\"", word) : fmt::format("unexpected \"{}\"", word);
    const std::vector<std::string> known = candidates(app);
    const std::vector<std::string_view> views(known.begin(), known.end());
    if (const auto near = base::nearest(word.substr(0, word.find('=')), views))
      help = fmt::format("did you mean \"{}\"? {}", *near, help);
  }
  context.console.report(diag::make(diag::rule::cli_usage, message, help));
  return ExitCode::kUsage;
}

// Sets the format that was asked for; false, with a report, if the chosen sub-command does not have it.
bool choose_format(const CLI::App& app, const std::string& name, Console& console) {
  if (name.empty()) return true;
  const auto* chosen =
      std::find_if(kFormats.begin(), kFormats.end(), [&](const FormatName& f) { return f.name == name; });
  const std::vector<CLI::App*> commands = app.get_subcommands();
  if (!chosen->only_of.empty() && (commands.empty() || commands.front()->get_name() != chosen->only_of)) {
    console.report(diag::make(diag::rule::cli_usage,
                              fmt::format("--format {} is a format of `sweepctl {}` only", name, chosen->only_of),
                              fmt::format("run `{} --help`", name_of_chosen(app))));
    return false;
  }
  console.set_format(chosen->format);
  return true;
}

ExitCode run_parsed(int argc, char** argv, Context& context, const Interrupt& interrupt) {
  CLI::App app{kDescription, "sweepctl"};
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("sweepctl ") + SWEEPCTL_VERSION);
  app.require_subcommand(0, 1);
  app.fallthrough();
  app.option_defaults()->always_capture_default();
  std::string format;
  std::string root;
  app.add_option("--format", format, "How results and diagnostics are written; sarif: of validate, markdown: of schema")
      ->check(CLI::IsMember({"human", "json", "github", "sarif", "markdown"}).description(""))
      ->type_name("human|json|github|sarif|markdown")
      ->default_str("human; github where GITHUB_ACTIONS is true");
  app.add_option("--root", root, "The checkout to work on")->type_name("DIR")->default_str("the nearest one upwards");
  app.add_flag("-q,--quiet", context.quiet, "No progress, only results and diagnostics");

  Action action;
  add_commands(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help, --version
    app.exit(asked);
    return ExitCode::kGood;
  } catch (const CLI::ParseError& error) {
    return usage_error(app, error, context);
  }
  if (!action) {
    context.console.out(app.help());
    return ExitCode::kGood;
  }
  if (!choose_format(app, format, context.console)) return ExitCode::kUsage;
  if (!root.empty()) context.root = root;
  context.stop = interrupt.token();
  const ExitCode code = action(context);
  const ExitCode interrupted = interrupt.exit_code();
  return interrupted == ExitCode::kGood ? code : interrupted;
}

}  // namespace

void add_commands(CLI::App& app, Action& action) {
  add_run(app, action);
  add_validate(app, action);
  add_plan(app, action);
  add_summary(app, action);
  add_changelog(app, action);
  add_weights(app, action);
  add_kernels(app, action);
  add_inspect(app, action);
  add_schema(app, action);
  add_explain(app, action);
  add_doctor(app, action);
  add_completion(app, action);
}

int run_application(int argc, char** argv) {
  const Interrupt interrupt;  // first: every later thread inherits the blocked signals
  Context context;
  try {
    return static_cast<int>(run_parsed(argc, argv, context, interrupt));
  } catch (const std::exception& error) {
    context.console.err(fmt::format("sweepctl: internal error: {}; please report this\n", error.what()));
    return static_cast<int>(ExitCode::kInternal);
  }
}

}  // namespace sweep::cli
