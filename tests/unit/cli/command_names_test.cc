#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "orchestrator/cli/command.h"
#include "tests/support/catch.h"

using namespace sweep;

namespace {

// Names of options and of positional arguments, which newer versions of the parser keep in one space.
std::vector<std::string> names_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back(name);
    if (option->get_positional()) names.push_back(option->get_name(true));
  }
  return names;
}

void check_command(const CLI::App& command) {
  INFO(command.get_name());
  std::vector<std::string> names = names_of(command);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  CHECK((twice == names.end() ? std::string() : *twice) == std::string());
  for (const CLI::App* sub : command.get_subcommands({})) check_command(*sub);
}

}  // namespace

TEST_CASE("command line: no argument of a command has the name of one of its options") {
  CLI::App app;
  cli::Action action;
  cli::add_commands(app, action);
  check_command(app);
}
