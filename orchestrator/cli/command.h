// What a sub-command is made of: a function that adds it to the parser, and one that runs it.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>

#include "orchestrator/cli/console.h"
#include "orchestrator/cli/exit_code.h"
#include "orchestrator/diag/diagnostic.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library names it
class App;
}

namespace sweep::cli {

struct Context {
  Console console;
  std::stop_token stop;
  std::optional<std::filesystem::path> root;  // --root
  bool quiet = false;
};

// What the parsed command line asks for.
using Action = std::function<ExitCode(Context&)>;

// All sub-commands.
void add_commands(CLI::App& app, Action& action);

// Each adds one sub-command and, when it was chosen, sets `action`.
void add_validate(CLI::App& app, Action& action);
void add_plan(CLI::App& app, Action& action);
void add_plan_rows(CLI::App& plan_command, Action& action);     // below `plan`
void add_plan_changes(CLI::App& plan_command, Action& action);  // likewise
void add_plan_summary(CLI::App& plan_command, Action& action);  // likewise
void add_run(CLI::App& app, Action& action);
void add_summary(CLI::App& app, Action& action);
void add_changelog(CLI::App& app, Action& action);
void add_weights(CLI::App& app, Action& action);
void add_weights_pin(CLI::App& weights_command, Action& action);     // below `weights`
void add_weights_verify(CLI::App& weights_command, Action& action);  // likewise
void add_weights_agree(CLI::App& weights_command, Action& action);   // likewise
void add_kernels(CLI::App& app, Action& action);
void add_kernels_bench(CLI::App& kernels_command, Action& action);  // below `kernels`
void add_inspect(CLI::App& app, Action& action);
void add_inspect_sse(CLI::App& inspect_command, Action& action);         // below `inspect`
void add_inspect_metrics(CLI::App& inspect_command, Action& action);     // likewise
void add_inspect_decode_log(CLI::App& inspect_command, Action& action);  // likewise
void add_inspect_power(CLI::App& inspect_command, Action& action);       // likewise
void add_inspect_result(CLI::App& inspect_command, Action& action);      // likewise
void add_schema(CLI::App& app, Action& action);
void add_completion(CLI::App& app, Action& action);
void add_explain(CLI::App& app, Action& action);
void add_doctor(CLI::App& app, Action& action);

// The exit code that a single failure deserves, by its rule.
ExitCode exit_code_of(const diag::Diagnostic& diagnostic);

// Reports a failure and gives its exit code.
ExitCode fail(const Context& context, const diag::Diagnostic& diagnostic);

}  // namespace sweep::cli
