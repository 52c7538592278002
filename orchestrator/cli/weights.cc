#include <CLI/CLI.hpp>

#include "orchestrator/cli/command.h"

namespace sweep::cli {

void add_weights(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("weights", "Pin, verify and compare model files by content");
  command->require_subcommand(1);
  add_weights_verify(*command, action);
  add_weights_pin(*command, action);
  add_weights_agree(*command, action);
}

}  // namespace sweep::cli
