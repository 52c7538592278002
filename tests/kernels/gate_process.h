// flashmla-gate as a process of its own, with its exit code, its errors and its report.
#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/catch.h"

namespace flashmla::gate {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "flashmla-gate-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file(const char* name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

inline std::string read(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

struct Outcome {
  int exit = -1;
  std::string errors;  // stderr
  std::string report;  // empty if there is none
};

// Runs the gate as its own process; `environment` is added to ours, and takes the place of variables of the same name:
// of two, the dynamic loader would take the last.
inline Outcome run_gate(std::vector<std::string> arguments, const std::vector<std::string>& environment = {}) {
  const Folder folder;
  for (std::string& argument : arguments) {
    if (argument == "REPORT") argument = folder.file("report.json");
  }
  arguments.insert(arguments.begin(), FLASHMLA_TEST_GATE);
  std::vector<char*> argv, envp;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::vector<std::string> variables = environment;
  for (std::string& variable : variables) envp.push_back(variable.data());
  const auto is_replaced = [&](std::string_view ours) {
    const auto same_name = [&](const std::string& other) {
      return ours.substr(0, ours.find('=')) == std::string_view(other).substr(0, other.find('='));
    };
    return std::any_of(environment.begin(), environment.end(), same_name);
  };
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (!is_replaced(*variable)) envp.push_back(*variable);
  envp.push_back(nullptr);

  const std::string errors = folder.file("errors");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, errors.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  REQUIRE(posix_spawn(&child, FLASHMLA_TEST_GATE, &actions, nullptr, argv.data(), envp.data()) == 0);
  posix_spawn_file_actions_destroy(&actions);
  int state = 0;
  REQUIRE(waitpid(child, &state, 0) == child);
  Outcome outcome;
  if (WIFEXITED(state)) outcome.exit = WEXITSTATUS(state);
  outcome.errors = read(errors);
  outcome.report = read(folder.file("report.json"));
  return outcome;
}

}  // namespace flashmla::gate
