// `sweepctl changelog` in real repositories.
#include <nlohmann/json.hpp>

#include "orchestrator/exec/capture.h"
#include "tests/support/catch.h"
#include "tests/support/git_repository.h"

using namespace sweep;
namespace fs = std::filesystem;

namespace {

const std::string kFile = "changelog/perf-changelog.yaml";
const std::string kMatrix =
    "alpha-fp8-h200:\n  image: i\n  runner: r\n  scenarios: {}\nbeta-fp8-h200:\n  image: i\n  runner: r\n  scenarios: "
    "{}\n";

std::string pull(int number) {
  return "https://github.com/example-org/bench/pull/" + std::to_string(number);
}
std::string entry(const std::string& key, const std::string& link) {
  return "- config-keys:\n    - " + key + "\n  description:\n    - \"x\"\n  pr-link: " + link + "\n";
}

struct Ran {
  int code = 0;
  std::string out, err;
};

Ran sweepctl(const fs::path& root, std::vector<std::string> arguments,
             std::vector<std::pair<std::string, std::string>> environment = {}) {
  exec::CommandSpec command{.argv = {SWEEPCTL_PROGRAMS "/sweepctl", "changelog"},
                            .environment = std::move(environment),
                            .unset = {"GITHUB_ACTIONS", "GITHUB_REPOSITORY", "GITHUB_SERVER_URL", "SWEEPCTL_ROOT"}};
  command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
  command.argv.insert(command.argv.end(), {"--root", root.string()});
  const exec::Captured answer = exec::capture(command, {}, {}, {}).value();
  return {answer.status.code, answer.output, answer.errors};
}

nlohmann::json check_json(const fs::path& root, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "check");
  arguments.insert(arguments.end(), {"--format", "json"});
  auto document = nlohmann::json::parse(sweepctl(root, std::move(arguments)).out, nullptr, false);
  REQUIRE(document.is_object());
  return document;
}

std::vector<std::string> rules(const nlohmann::json& document) {
  std::vector<std::string> result;
  for (const auto& item : document["diagnostics"]) result.push_back(item["rule"].get<std::string>());
  return result;
}

std::string read(const fs::path& path) {
  return base::read_file(path).value();
}

// A checkout with a matrix and two entries of history on its default branch.
struct Checkout : test::GitRepository {
  std::string history = entry("alpha-fp8-h200", pull(1)) + "\n" + entry("beta-*", pull(2));

  explicit Checkout(const std::string& branch = "main", const std::vector<std::string>& init = {})
      : GitRepository(branch, init) {
    write("matrix/m.yaml", kMatrix);
    write("recipes/.keep", "");
    write(kFile, history);
    commit("start");
  }
  void topic(const std::string& text) const {
    git({"checkout", "--quiet", "-b", "topic"});
    commit_file(kFile, text);
  }
};

}  // namespace

TEST_CASE("changelog check: an append is taken, and its keys are named with what they select") {
  const Checkout checkout;
  checkout.topic(checkout.history + "\n" + entry("'*-h200'", pull(7)));
  const Ran ran = sweepctl(checkout.path(), {"check", "--base", "main", "--head", "topic", "--pr", "7"});
  INFO(ran.err);
  CHECK(ran.code == 0);
  CHECK(ran.err.empty());
  CHECK(ran.out == kFile + ": 1 entry added behind 2: append-only\n  + entry 3 (" + pull(7) +
                       ": *-h200)\n    selects 2 matrix entries: alpha-fp8-h200, beta-fp8-h200\n");
  const auto document = check_json(checkout.path(), {"--base", "main", "--head", "topic", "--pr", "7"});
  CHECK(document["accepted"] == true);
  CHECK(document["added"] == 1);
  CHECK(document["added_at_index"] == 2);
  CHECK(document["keys"] == nlohmann::json({"alpha-fp8-h200", "beta-fp8-h200"}));
  CHECK(document["base_commit"] == checkout.git({"rev-parse", "main"}));
  CHECK(document["head_commit"] == checkout.git({"rev-parse", "topic"}));
}

TEST_CASE("changelog check: the working tree is the head where none is named") {
  const Checkout checkout;
  checkout.write(kFile, checkout.history + "\n" + entry("beta-fp8-h200", "XXX"));
  CHECK(sweepctl(checkout.path(), {"check", "--base", "main", "--pr", "XXX"}).code == 0);
  const Ran placeholder = sweepctl(checkout.path(), {"check", "--base", "HEAD"});
  CHECK(placeholder.code == 1);
  CHECK(contains(placeholder.err, kFile + ":17:12: error: pr-link is still a placeholder"));
  const Ran request = sweepctl(checkout.path(), {"check", "--base", "HEAD", "--pr", "9"});
  CHECK(request.code == 0);
  CHECK(contains(request.err, "warning: pr-link is still a placeholder"));
}

TEST_CASE("changelog check: a stale branch is behind, not guilty of a deletion") {
  const Checkout checkout;
  checkout.topic(checkout.history + "\n" + entry("alpha-fp8-h200", pull(7)));
  checkout.git({"checkout", "--quiet", "main"});
  checkout.commit_file(kFile, checkout.history + "\n" + entry("beta-*", pull(6)));
  const auto document = check_json(checkout.path(), {"--base", "main", "--head", "topic", "--pr", "7"});
  CHECK(document["accepted"] == true);
  CHECK(document["behind"] == 1);
  CHECK(rules(document) == std::vector<std::string>{"changelog/behind"});
  const auto tip = check_json(checkout.path(), {"--base", "main", "--head", "topic", "--pr", "7", "--tip"});
  CHECK(tip["accepted"] == false);
  CHECK(tip["deleted_links"] == nlohmann::json({pull(6)}));
  // Seen from the other side: main does not descend from topic, and has only its own addition.
  CHECK(check_json(checkout.path(), {"--base", "topic", "--head", "main"})["added"] == 1);
}

TEST_CASE("changelog check: a key of a new entry must match the matrix of the head") {
  const Checkout checkout;
  checkout.topic(checkout.history + "\n" + entry("gamma-*", pull(7)));
  const auto unknown = check_json(checkout.path(), {"--base", "main", "--head", "topic", "--pr", "7"});
  CHECK(rules(unknown) == std::vector<std::string>{"changelog/key-matches-nothing"});
  CHECK(unknown["diagnostics"][0]["line"] == 14);
  checkout.commit_file("matrix/m.yaml", kMatrix + "gamma-fp8-h200:\n  image: i\n  runner: r\n  scenarios: {}\n");
  CHECK(check_json(checkout.path(), {"--base", "main", "--head", "topic", "--pr", "7"})["accepted"] == true);
  // History may name what the matrix has no more.
  checkout.commit_file("matrix/m.yaml", "gamma-fp8-h200:\n  image: i\n  runner: r\n  scenarios: {}\n");
  CHECK(check_json(checkout.path(), {"--base", "main", "--head", "topic", "--pr", "7"})["accepted"] == true);
}

TEST_CASE("changelog check: a file that the base lacks is all addition, one that the head lacks is an error") {
  const test::GitRepository sandbox("trunk");
  sandbox.commit_file("other", "x");
  sandbox.git({"checkout", "--quiet", "-b", "topic"});
  sandbox.commit_file("perf-changelog.yaml", entry("a", pull(7)) + "\n" + entry("b", pull(7)));
  const auto added = check_json(sandbox.path(), {"--base", "trunk", "--head", "topic", "--pr", "7"});
  CHECK(added["accepted"] == true);
  CHECK(added["added"] == 2);
  CHECK(added["file"] == "perf-changelog.yaml");
  sandbox.git({"rm", "--quiet", "perf-changelog.yaml"});
  sandbox.commit();
  const auto gone = check_json(
      sandbox.path(), {"--base", "topic~1", "--head", "topic", "--file", (sandbox / "perf-changelog.yaml").string()});
  CHECK(rules(gone) == std::vector<std::string>{"changelog/file-deleted"});
  const auto never = check_json(sandbox.path(), {"--base", "trunk", "--head", "topic"});
  CHECK(rules(never) == std::vector<std::string>{"file/unreadable"});
}

TEST_CASE("changelog check: a shallow clone is told what to fetch, with the exit code for a retry") {
  const Checkout checkout;
  checkout.topic(checkout.history + "\n" + entry("beta-*", pull(7)));
  checkout.git({"checkout", "--quiet", "main"});
  checkout.commit_file("other", "1");
  checkout.commit_file("other", "2");
  const fs::path clone = checkout.beside("clone");
  test::git(checkout.path(), {"clone", "--quiet", "--depth=1", "--no-single-branch", checkout.url(), clone.string()});
  const Ran shallow = sweepctl(clone, {"check", "--base", "origin/main", "--head", "origin/topic", "--pr", "7"});
  CHECK(shallow.code == 3);
  CHECK(contains(shallow.err, "[git/shallow-history]"));
  CHECK(contains(shallow.err, "git fetch --deepen=100 origin"));
  test::git(clone, {"fetch", "--quiet", "--deepen=100", "origin"});
  CHECK(sweepctl(clone, {"check", "--base", "origin/main", "--head", "origin/topic", "--pr", "7"}).code == 0);
}

TEST_CASE("changelog check: the merge commit that Actions checks out needs no more than its first parent") {
  const Checkout checkout;
  checkout.topic(checkout.history + "\n" + entry("beta-*", pull(7)));
  checkout.git({"checkout", "--quiet", "main"});
  checkout.commit_file("other", "1");
  checkout.git({"merge", "--quiet", "--no-ff", "--message", "merge", "topic"});
  const fs::path clone = checkout.beside("clone");
  test::git(checkout.path(), {"clone", "--quiet", "--depth=2", checkout.url(), clone.string()});
  const auto document = check_json(clone, {"--base", "HEAD^1", "--head", "HEAD", "--pr", "7"});
  CHECK(document["accepted"] == true);
  CHECK(document["added"] == 1);
}

TEST_CASE("changelog check: append-only and regular entries are two changes") {
  const Checkout checkout;
  checkout.topic(checkout.history + "\n" + entry("beta-*", pull(7)) + "  append-only: true\n\n" +
                 entry("alpha-*", pull(7)));
  const auto document = check_json(checkout.path(), {"--base", "main", "--head", "topic", "--pr", "7"});
  CHECK(rules(document) == std::vector<std::string>{"changes/mixed-modes"});
}

TEST_CASE("changelog check: wrong revisions and wrong usage have their own exit codes") {
  const Checkout checkout;
  CHECK(sweepctl(checkout.path(), {"check", "--base", "nowhere"}).code == 3);
  CHECK(sweepctl(checkout.path(), {"check", "--base=--output=x"}).code == 2);
  CHECK(sweepctl(checkout.path(), {"check"}).code == 2);
  CHECK(sweepctl(checkout.path(), {"check", "--base", "main", "--pr", "07"}).code == 2);
  CHECK(sweepctl(checkout.path(), {"check", "--base", "main", "--repository", "nonsense"}).code == 2);
  CHECK(sweepctl(checkout.path(), {"check", "--base", "main", "--file", "/etc/passwd"}).code == 2);
  CHECK(sweepctl(checkout.path(), {}).code == 2);
  const test::TestDir folder;
  const Ran outside = sweepctl(folder.path(), {"check", "--base", "main"});
  CHECK(outside.code == 3);
  CHECK(contains(outside.err, "[git/not-a-repository]"));
}

TEST_CASE("changelog check: linked working trees, submodules and SHA-256 repositories work alike") {
  const Checkout checkout;
  const fs::path linked = checkout.beside("linked");
  checkout.git({"worktree", "add", "--quiet", "-b", "topic", linked.string()});
  REQUIRE(base::write_file_atomic(linked / kFile, checkout.history + "\n" + entry("beta-*", pull(7))).has_value());
  CHECK(check_json(linked, {"--base", "main", "--pr", "7"})["added"] == 1);
  CHECK(check_json(checkout.path(), {"--base", "main"})["added"] == 0);

  const test::GitRepository outer;
  outer.git({"submodule", "--quiet", "add", checkout.url(), "inner"});
  outer.commit();
  REQUIRE(base::write_file_atomic(outer / ("inner/" + kFile), checkout.history + "\n" + entry("beta-*", pull(8)))
              .has_value());
  CHECK(check_json(outer / "inner", {"--base", "HEAD", "--pr", "8"})["added"] == 1);

  const test::TestDir probe;
  if (!test::try_git(probe.path(), {"init", "--quiet", "--object-format=sha256", "x"}))
    SWEEP_SKIP("this git has no SHA-256 repositories");
  const Checkout wide("main", {"--object-format=sha256"});
  wide.topic(wide.history + "\n" + entry("beta-*", pull(7)));
  CHECK(check_json(wide.path(), {"--base", "main", "--head", "topic", "--pr", "7"})["accepted"] == true);
}

TEST_CASE("changelog check: in Actions the result is annotations, and the repository comes from the environment") {
  const Checkout checkout;
  checkout.topic(checkout.history + "\n" + entry("beta-*", "https://github.com/fork/bench/pull/7"));
  const std::vector<std::string> arguments{"check", "--base", "main", "--head", "topic", "--pr", "7"};
  const Ran wrong = sweepctl(checkout.path(), arguments, {{"GITHUB_ACTIONS", "true"}});
  CHECK(wrong.code == 1);
  CHECK(contains(wrong.err, "::error file=" + kFile + ",line=17,col=12"));
  const Ran fork = sweepctl(checkout.path(), arguments, {{"GITHUB_REPOSITORY", "fork/bench"}});
  CHECK(fork.code == 0);
  std::vector<std::string> named = arguments;
  named.insert(named.end(), {"--repository", "example-org/bench"});
  CHECK(sweepctl(checkout.path(), named, {{"GITHUB_REPOSITORY", "fork/bench"}}).code == 1);
}

TEST_CASE("changelog check: the nearest changelog above the current folder is meant, whatever the launcher says") {
  const Checkout checkout;
  const test::GitRepository peer;
  peer.write("perf-changelog.yaml", entry("beta-*", pull(1)));
  peer.write("utils/x", "");
  peer.commit();
  const exec::CommandSpec command{.argv = {"env", "-C", (peer / "utils").string(), SWEEPCTL_PROGRAMS "/sweepctl",
                                           "changelog", "check", "--base", "HEAD"},
                                  .environment = {{"SWEEPCTL_ROOT", checkout.path().string()}},
                                  .unset = {"GITHUB_ACTIONS", "GITHUB_REPOSITORY"}};
  const exec::Captured answer = exec::capture(command, {}, {}, {}).value();
  INFO(answer.errors);
  CHECK(answer.output == "perf-changelog.yaml: 0 entries added behind 1: append-only\n");
}

TEST_CASE("changelog check: two files are compared without git") {
  const test::TestDir folder;
  const std::string base = entry("a", pull(1));
  folder.write("base.yaml", base);
  folder.write("head.yaml", base + "\n" + entry("b", pull(2)));
  const std::vector<std::string> files{(folder / "base.yaml").string(), (folder / "head.yaml").string()};
  const auto document = check_json(folder.path(), files);
  CHECK(document["accepted"] == true);
  CHECK(document["keys"] == nlohmann::json({"b"}));
  CHECK(check_json(folder.path(), {files[1], files[0]})["deleted_links"] == nlohmann::json({pull(2)}));
}

TEST_CASE("changelog add: one entry is appended, and the check takes what was written") {
  const Checkout checkout;
  const Ran ran = sweepctl(checkout.path(), {"add", "--config-keys", "alpha-*", "beta-fp8-h200", "--description",
                                             "first: with \"quotes\" # and a hash", "- second\nof two lines", "--pr",
                                             "12", "--append-only", "--scenario-type", "fixed-seq-len"});
  INFO(ran.err);
  CHECK(ran.code == 0);
  const std::string added =
      "\n- config-keys:\n    - alpha-*\n    - beta-fp8-h200\n  description:\n"
      "    - \"first: with \\\"quotes\\\" # and a hash\"\n    - \"- second\\nof two lines\"\n  pr-link: " +
      pull(12) + "\n  append-only: true\n  scenario-type:\n    - fixed-seq-len\n";
  CHECK(read(checkout / kFile) == checkout.history + added);
  CHECK(contains(ran.out, added));
  CHECK(sweepctl(checkout.path(), {"check", "--base", "main", "--pr", "12"}).code == 0);
}

TEST_CASE("changelog add: what is wrong is refused before a byte is written") {
  const Checkout checkout;
  const std::vector<std::string> good{"add", "--description", "d", "--config-keys"};
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = good;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return sweepctl(checkout.path(), arguments);
  };
  const Ran unknown = with({"gamma-*"});
  CHECK(unknown.code == 1);
  CHECK(contains(unknown.err, "config key \"gamma-*\" matches no matrix entry"));
  CHECK(with({"alpha-*", "--append-only", "--evals-only"}).code == 1);
  CHECK(with({"alpha-*", "--pr-link", "https://github.com/other/bench/pull/1"}).code == 1);
  CHECK(with({"alpha-*", "--pr-link", "XXX", "--pr", "4"}).code == 2);
  CHECK(with({"alpha-*", "--eval-min-prefill-ep", "0"}).code == 2);
  CHECK(with({"alpha-*", "--dry-run"}).code == 0);
  CHECK(read(checkout / kFile) == checkout.history);
  checkout.write(kFile, checkout.history + "\n\t- broken\n");
  CHECK(with({"alpha-*"}).code == 1);
  CHECK(read(checkout / kFile) == checkout.history + "\n\t- broken\n");
}

TEST_CASE("changelog add: a file reached by a link is changed, the link stays") {
  const test::TestDir folder;
  folder.write("matrix/m.yaml", kMatrix);
  folder.write("recipes/.keep", "");
  folder.write("elsewhere.yaml", entry("alpha-*", pull(1)));
  fs::create_directory(folder / "changelog");
  fs::create_symlink("../elsewhere.yaml", folder / kFile);
  CHECK(sweepctl(folder.path(), {"add", "--config-keys", "alpha-*", "--description", "d"}).code == 0);
  CHECK(fs::is_symlink(folder / kFile));
  CHECK(contains(folder.read("elsewhere.yaml"), "pr-link: XXX"));
}

TEST_CASE("changelog add: the first entry makes the file") {
  const test::TestDir folder;
  folder.write("matrix/m.yaml", kMatrix);
  folder.write("recipes/.keep", "");
  CHECK(sweepctl(folder.path(), {"add", "--config-keys", "alpha-*", "--description", "d"}).code == 0);
  CHECK(folder.read(kFile) == "- config-keys:\n    - alpha-*\n  description:\n    - \"d\"\n  pr-link: XXX\n");
}

TEST_CASE("changelog canonicalize: placeholders of new entries get the link, those of history stay") {
  const Checkout checkout;
  const std::string history = checkout.history + "\n" + entry("beta-*", "XXX");
  checkout.commit_file(kFile, history);
  checkout.topic(history + "\n" + entry("alpha-*", "XXX"));
  const Ran ran = sweepctl(checkout.path(), {"canonicalize", "--base", "main", "--pr", "31"});
  INFO(ran.err);
  CHECK(ran.code == 0);
  CHECK(read(checkout / kFile) == history + "\n" + entry("alpha-*", pull(31)));
  CHECK(sweepctl(checkout.path(), {"canonicalize", "--base", "main", "--pr", "XXX"}).code == 2);
}

TEST_CASE("changelog resolve-conflict: after a merge and in a rebase main stays and the branch follows") {
  for (const bool rebase : {false, true}) {
    const Checkout checkout;
    checkout.topic(checkout.history + "\n" + entry("alpha-*", "XXX"));
    checkout.git({"checkout", "--quiet", "main"});
    const std::string main = checkout.history + "\n" + entry("beta-*", pull(6));
    checkout.commit_file(kFile, main);
    checkout.git({"checkout", "--quiet", "topic"});
    CHECK(sweepctl(checkout.path(), {"resolve-conflict"}).code == 1);
    CHECK_FALSE(test::try_git(checkout.path(), {rebase ? "rebase" : "merge", "main"}));
    const Ran before = sweepctl(checkout.path(), {"check", "--base", "main", "--pr", "XXX"});
    CHECK(contains(before.err, "[changelog/conflict-markers]"));
    const Ran ran = sweepctl(checkout.path(), {"resolve-conflict"});
    INFO(ran.err << ran.out);
    CHECK(ran.code == 0);
    CHECK(read(checkout / kFile) == main + "\n" + entry("alpha-*", "XXX"));
    CHECK(sweepctl(checkout.path(), {"check", "--base", "main", "--pr", "XXX"}).code == 0);
  }
}
