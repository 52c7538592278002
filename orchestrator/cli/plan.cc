#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "orchestrator/cli/command.h"
#include "orchestrator/pipeline/entries.h"
#include "orchestrator/pipeline/locations.h"
#include "orchestrator/plan/expand.h"

namespace sweep::cli {

namespace {

struct PlanOptions {
  std::vector<std::string> entries;
  std::vector<int64_t> concurrencies;
};

ExitCode plan_jobs(const Context& context, const PlanOptions& options) {
  const auto locations = pipeline::find_locations(context.root);
  if (!locations) return fail(context, locations.error());
  diag::Diagnostics diagnostics;
  const auto loaded = pipeline::load_jobs(locations->root, {options.entries, options.concurrencies}, diagnostics);
  if (diagnostics.has_errors()) {
    context.console.report(diagnostics, loaded.sources);
    return ExitCode::kProblems;
  }
  if (context.console.format() == Format::kJson) {
    nlohmann::json list = nlohmann::json::array();
    for (const plan::Job& job : loaded.jobs) list.push_back(plan::to_json(job));
    context.console.out(list.dump(2) + "\n");
  } else {
    context.console.report(diagnostics, loaded.sources);
    context.console.out(plan::plan_table(loaded.jobs));
  }
  return ExitCode::kGood;
}

}  // namespace

void add_plan(CLI::App& app, Action& action) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand("plan", "The jobs that the matrix expands to");
  command->footer(
      "Examples:\n"
      "  sweepctl plan                               every point of the checkout, as a table (--format json for "
      "programs)\n"
      "  sweepctl plan 'dsv41flash-*-128k'           the points of some entries\n"
      "  sweepctl plan full-sweep --config-files matrix/nvidia.yaml --single-node\n"
      "  sweepctl plan test-config --config-keys 'embedded*'\n"
      "  sweepctl plan changes --base origin/main    what this working tree's changelog entries select\n"
      "  sweepctl plan summary --base origin/main    the matrix for review, with the difference to the base");
  command->require_subcommand(0, 1);
  add_plan_rows(*command, action);
  add_plan_changes(*command, action);
  add_plan_summary(*command, action);
  command->add_option("entries", options->entries, "Entries of the matrix; * and ? match")->type_name("ENTRY");
  command->add_option("--conc", options->concurrencies, "Only this concurrency (may be repeated)")
      ->type_name("N")
      ->allow_extra_args(false);
  command->callback([options, command, &action] {
    if (!command->get_subcommands().empty()) return;
    action = [options](Context& context) { return plan_jobs(context, *options); };
  });
}

}  // namespace sweep::cli
