#include <CLI/CLI.hpp>

#include "orchestrator/cli/command.h"

namespace sweep::cli {

void add_inspect(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("inspect", "What a run would conclude from a raw capture that was recorded");
  command->require_subcommand(1);
  add_inspect_sse(*command, action);
  add_inspect_metrics(*command, action);
  add_inspect_decode_log(*command, action);
  add_inspect_power(*command, action);
  add_inspect_result(*command, action);
}

}  // namespace sweep::cli
