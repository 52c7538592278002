#include "tests/support/git_repository.h"

#include "orchestrator/exec/capture.h"
#include "tests/support/catch.h"

namespace sweep::test {

namespace {

exec::Captured run(const std::filesystem::path& folder, const std::vector<std::string>& arguments) {
  exec::CommandSpec command{
      .argv = {"git", "-C", folder.string(), "-c", "user.name=tester", "-c", "user.email=tester@example.org", "-c",
               "commit.gpgSign=false", "-c", "core.autocrlf=false", "-c", "protocol.file.allow=always", "-c",
               "advice.detachedHead=false"},
      .environment = {{"GIT_CONFIG_GLOBAL", "/dev/null"},
                      {"GIT_CONFIG_NOSYSTEM", "1"},
                      {"LC_ALL", "C"},
                      {"GIT_TERMINAL_PROMPT", "0"}},
      .unset = {"GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY"}};
  command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
  return exec::capture(command, {}, {}, {}).value();
}

}  // namespace

std::string git(const std::filesystem::path& folder, const std::vector<std::string>& arguments) {
  const exec::Captured answer = run(folder, arguments);
  INFO(answer.errors);
  REQUIRE(answer.status.ok());
  std::string text = answer.output;
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

bool try_git(const std::filesystem::path& folder, const std::vector<std::string>& arguments) {
  return run(folder, arguments).status.ok();
}

GitRepository::GitRepository(const std::string& branch, const std::vector<std::string>& init) {
  std::filesystem::create_directory(path());
  std::vector<std::string> arguments{"init", "--quiet", "--initial-branch=" + branch};
  arguments.insert(arguments.end(), init.begin(), init.end());
  git(arguments);
}

void GitRepository::write(std::string_view name, std::string_view content) const {
  dir_.write("repository/" + std::string(name), content);
}

std::string GitRepository::commit(const std::string& message) const {
  git({"add", "--all"});
  git({"commit", "--quiet", "--allow-empty", "--message", message});
  return git({"rev-parse", "HEAD"});
}

std::string GitRepository::commit_file(std::string_view name, std::string_view content) const {
  write(name, content);
  return commit("write " + std::string(name));
}

}  // namespace sweep::test
