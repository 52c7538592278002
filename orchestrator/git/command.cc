#include "orchestrator/git/command.h"

#include <fmt/format.h>

#include "orchestrator/base/utf8.h"
#include "orchestrator/diag/rules/exec.h"
#include "orchestrator/diag/rules/git.h"

namespace sweep::git {

namespace {

constexpr exec::CaptureLimits kLimits{.time = std::chrono::minutes(2), .output_bytes = 256u << 20};

// What `git rev-parse --local-env-vars` lists, but for the variables that carry `-c` settings: somebody who sets
// safe.directory by them means every git. Then those that change output or ask questions.
const std::vector<std::string>& redirecting_variables() {
  static const std::vector<std::string> names{"GIT_ALTERNATE_OBJECT_DIRECTORIES",
                                              "GIT_COMMON_DIR",
                                              "GIT_CONFIG",
                                              "GIT_DIR",
                                              "GIT_GRAFT_FILE",
                                              "GIT_IMPLICIT_WORK_TREE",
                                              "GIT_INDEX_FILE",
                                              "GIT_INTERNAL_SUPER_PREFIX",
                                              "GIT_NAMESPACE",
                                              "GIT_NO_REPLACE_OBJECTS",
                                              "GIT_OBJECT_DIRECTORY",
                                              "GIT_PREFIX",
                                              "GIT_QUARANTINE_PATH",
                                              "GIT_REPLACE_REF_BASE",
                                              "GIT_SHALLOW_FILE",
                                              "GIT_WORK_TREE",
                                              "GIT_GLOB_PATHSPECS",
                                              "GIT_NOGLOB_PATHSPECS",
                                              "GIT_ICASE_PATHSPECS",
                                              "GIT_TRACE",
                                              "GIT_TRACE2",
                                              "LANGUAGE"};
  return names;
}

std::string words_of(const exec::Captured& answer) {
  std::string text = base::valid_utf8(line_of(answer.errors));
  if (text.empty()) return answer.status.text();
  if (text.starts_with("fatal: ")) text.erase(0, 7);
  return text.substr(0, text.find('\n'));
}

}  // namespace

std::string_view line_of(std::string_view output) {
  if (output.ends_with('\n')) output.remove_suffix(1);
  return output;
}

diag::Result<exec::Captured> run_git(const std::filesystem::path& folder, const std::vector<std::string>& arguments,
                                     const std::stop_token& stop, std::string_view input) {
  exec::CommandSpec command{
      .argv = {"git", "--no-replace-objects", "--no-optional-locks", "--literal-pathspecs", "-C", folder.string()},
      .environment = {{"LC_ALL", "C"}, {"GIT_TERMINAL_PROMPT", "0"}},
      .unset = redirecting_variables()};
  command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
  auto answer = exec::capture(command, input, kLimits, stop);
  if (!answer && answer.error().rule == diag::rule::exec_cannot_start)
    return diag::fail(diag::rule::git_not_installed, answer.error().message, "install git, or put it into PATH");
  return answer;
}

diag::Diagnostic failure(std::string_view what, const std::filesystem::path& folder, const exec::Captured& answer) {
  if (answer.errors.find("dubious ownership") != std::string::npos)
    return diag::make(diag::rule::git_dubious_ownership,
                      fmt::format("git refuses the repository at \"{}\": it belongs to another user", folder.string()),
                      fmt::format("if you trust it: git config --global --add safe.directory '{}'", folder.string()));
  return diag::make(diag::rule::git_failed, fmt::format("{}: git says: {}", what, words_of(answer)),
                    "`git fsck` checks the repository");
}

}  // namespace sweep::git
