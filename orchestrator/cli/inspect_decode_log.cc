#include <CLI/CLI.hpp>

#include "orchestrator/cli/command.h"

namespace sweep::cli {

void add_inspect_decode_log(CLI::App& inspect_command, Action&) {
  inspect_command.add_subcommand("decode-log", "Being recorded captures of this kind");
}

}  // namespace sweep::cli
