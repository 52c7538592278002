// `plan full-sweep` and `plan test-config`: the job matrix as the closest peer's generator prints it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "orchestrator/cli/command.h"
#include "orchestrator/cli/plan_output.h"
#include "orchestrator/diag/rules/cli.h"
#include "orchestrator/pipeline/locations.h"
#include "orchestrator/plan/rows.h"
#include "orchestrator/schema/checkout.h"

namespace sweep::cli {

namespace {

using SeqLens = std::pair<int64_t, int64_t>;

struct RowArguments {
  std::vector<std::string> config_files;
  std::string runner_config;
  bool no_evals = false;
  bool evals_only = false;
  bool all_evals = false;
  std::vector<std::string> scenario_types;
  std::vector<std::string> seq_lens;
  std::string runner_node_filter;
  bool single_node = false;
  bool multi_node = false;
  plan::FullSweep full;
  plan::TestConfig test;
  GithubOptions github;
};

plan::RowFilter filter_of(const RowArguments& arguments) {
  plan::RowFilter filter{.runner_node_filter = arguments.runner_node_filter, .into_buckets = arguments.github.enabled};
  if (arguments.no_evals) filter.evals = plan::Evals::kNone;
  if (arguments.evals_only) filter.evals = plan::Evals::kOnly;
  if (arguments.all_evals) filter.evals = plan::Evals::kAll;
  for (const std::string& name : arguments.scenario_types)
    filter.scenario_types.push_back(name == "agentic-coding" ? schema::ScenarioKind::kAgenticCoding
                                                             : schema::ScenarioKind::kFixedSeqLen);
  for (const std::string& name : arguments.seq_lens)
    filter.seq_lens.push_back(name == "1k1k" ? SeqLens{1024, 1024} : SeqLens{8192, 1024});
  return filter;
}

// The files that were named, else those of the checkout.
diag::Result<schema::Checkout> load(const Context& context, const RowArguments& arguments) {
  const auto locations = pipeline::find_locations(context.root);
  if (!locations && arguments.config_files.empty()) return diag::fail(locations.error());
  const std::filesystem::path root = locations ? locations->root : std::filesystem::path();
  if (arguments.config_files.empty() && arguments.runner_config.empty()) return schema::load_checkout(root);
  schema::FileSelection files{.matrix_files = {arguments.config_files.begin(), arguments.config_files.end()}};
  if (!arguments.runner_config.empty()) files.runner_file = arguments.runner_config;
  return schema::load_matrix_files(root, files);
}

template <class Expand>
ExitCode print_rows(const Context& context, const RowArguments& arguments, Expand&& expand) {
  auto checkout = load(context, arguments);
  if (!checkout) return fail(context, checkout.error());
  demote_unknown_runners(checkout->diagnostics);
  plan::MatrixRows rows;
  if (!checkout->diagnostics.has_errors()) rows = expand(*checkout);
  const diag::Diagnostics all = joined(checkout->diagnostics, rows.diagnostics);
  const bool refused = all.has_errors();
  if (refused || context.console.format() != Format::kJson) context.console.report(all, checkout->sources);
  if (refused) return ExitCode::kProblems;
  if (arguments.github.enabled) return hand_over(context, rows.buckets, arguments.github);
  context.console.out(rows.json);
  context.console.out("\n");
  return ExitCode::kGood;
}

void add_common(CLI::App& command, RowArguments& arguments) {
  command.add_option("--config-files", arguments.config_files, "Matrix files, in this order")
      ->type_name("FILE...")
      ->default_str("those of the checkout");
  command.add_option("--runner-config", arguments.runner_config, "Runner file")
      ->type_name("FILE")
      ->default_str("matrix/runners.yaml");
  CLI::Option* none = command.add_flag("--no-evals", arguments.no_evals, "Mark no row for evaluation");
  command.add_flag("--evals-only", arguments.evals_only, "Only rows to evaluate")->excludes(none);
  command.add_flag("--all-evals", arguments.all_evals, "Evaluate every point")->excludes(none);
  command
      .add_option("--runner-node-filter", arguments.runner_node_filter, "Rows for the nodes whose name contains this")
      ->type_name("TEXT");
  command.add_option("--scenario-type", arguments.scenario_types, "Scenario kinds")
      ->check(CLI::IsMember({"fixed-seq-len", "agentic-coding"}).description(""))
      ->type_name("KIND...");
  command.add_option("--seq-lens", arguments.seq_lens, "Fixed lengths")
      ->check(CLI::IsMember({"1k1k", "8k1k"}).description(""))
      ->type_name("LENS...");
  add_github_options(command, arguments.github);
  command.footer(github_help());
}

void add_full_sweep(CLI::App& parent, Action& action) {
  auto arguments = std::make_shared<RowArguments>();
  CLI::App* command =
      parent.add_subcommand("full-sweep", "Rows of every entry that the filters leave, as one line of JSON");
  add_common(*command, *arguments);
  plan::FullSweep& full = arguments->full;
  command->add_option("--model-prefix", full.model_prefixes, "Beginnings of entry names")->type_name("TEXT...");
  command->add_option("--precision", full.precisions, "Precisions")->type_name("TEXT...");
  command->add_option("--framework", full.frameworks, "Frameworks")->type_name("TEXT...");
  command->add_option("--runner-type", full.runner_types, "Runner labels")->type_name("TEXT...");
  command->add_option("--step-size", full.step_size, "Factor between the concurrencies of a range")
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 30).description(""))
      ->type_name("N");
  command->add_option("--min-conc", full.min_conc, "Lowest concurrency")->type_name("N");
  command->add_option("--max-conc", full.max_conc, "Highest concurrency")->type_name("N");
  command->add_option("--max-tp", full.max_tp, "Highest TP")->type_name("N");
  command->add_option("--max-ep", full.max_ep, "Highest EP")->type_name("N");
  command->add_flag("--single-node", arguments->single_node, "Single-node entries");
  command->add_flag("--multi-node", arguments->multi_node, "Multi-node entries; neither flag: both");
  command->callback([arguments, &action] {
    action = [arguments](Context& context) {
      plan::FullSweep options = arguments->full;
      if (options.min_conc && options.max_conc && *options.min_conc > *options.max_conc)
        return fail(context, diag::make(diag::rule::cli_usage, fmt::format("--min-conc {} is above --max-conc {}",
                                                                           *options.min_conc, *options.max_conc)));
      options.filter = filter_of(*arguments);
      options.single_node = arguments->single_node || !arguments->multi_node;
      options.multi_node = arguments->multi_node || !arguments->single_node;
      return print_rows(context, *arguments,
                        [&](const schema::Checkout& checkout) { return plan::full_sweep(checkout, options); });
    };
  });
}

void add_test_config(CLI::App& parent, Action& action) {
  auto arguments = std::make_shared<RowArguments>();
  CLI::App* command = parent.add_subcommand("test-config", "Rows of the named entries, as one line of JSON");
  add_common(*command, *arguments);
  command->add_option("--config-keys", arguments->test.config_keys, "Entries; * and ? match")
      ->required()
      ->type_name("KEY...");
  command->add_option("--conc", arguments->test.concurrencies, "Only these concurrencies")->type_name("N...");
  command->callback([arguments, &action] {
    action = [arguments](Context& context) {
      plan::TestConfig options = arguments->test;
      options.filter = filter_of(*arguments);
      return print_rows(context, *arguments,
                        [&](const schema::Checkout& checkout) { return plan::test_config(checkout, options); });
    };
  });
}

}  // namespace

void add_plan_rows(CLI::App& plan_command, Action& action) {
  add_full_sweep(plan_command, action);
  add_test_config(plan_command, action);
}

}  // namespace sweep::cli
