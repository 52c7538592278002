#include <CLI/CLI.hpp>

#include "orchestrator/cli/command.h"

namespace sweep::cli {

void add_inspect_metrics(CLI::App& inspect_command, Action&) {
  inspect_command.add_subcommand("metrics", "Being recorded captures of this kind");
}

}  // namespace sweep::cli
