#include "orchestrator/changelog/history.h"

#include "orchestrator/changelog/matrix_names.h"
#include "orchestrator/diag/rules/git.h"
#include "tests/support/catch.h"
#include "tests/support/git_repository.h"
#include "tests/unit/changelog/entries.h"

using namespace sweep;
using test::entry;
using test::pull;

namespace {

const std::string kFile = "changelog/perf-changelog.yaml";

git::Repository open(const test::GitRepository& sandbox) {
  return git::Repository::open(sandbox.path()).value();
}

// main: one entry, then a second; topic: made after the first, with one of its own.
struct Parted {
  test::GitRepository sandbox;
  std::string first = entry("a", pull(1));
  std::string main = first + "\n" + entry("m", pull(2));
  std::string topic = first + "\n" + entry("t", pull(7));

  Parted() {
    sandbox.commit_file(kFile, first);
    sandbox.git({"checkout", "--quiet", "-b", "topic"});
    sandbox.commit_file(kFile, topic);
    sandbox.git({"checkout", "--quiet", "main"});
    sandbox.commit_file(kFile, main);
    sandbox.git({"checkout", "--quiet", "topic"});
  }
};

}  // namespace

TEST_CASE("history: a branch is compared with the point where it left the base") {
  const Parted parted;
  const changelog::HistoryQuestion question{.file = kFile, .base = "main", .head = "topic"};
  const auto history = changelog::read_history(open(parted.sandbox), question).value();
  CHECK(history.base->text == parted.first);
  CHECK(history.head->text == parted.topic);
  CHECK(history.head->name == kFile);
  diag::Diagnostics out;
  CHECK(changelog::check_behind(history, question, out) == 1);
  REQUIRE(out.items().size() == 1);
  CHECK(out.items()[0].message ==
        "this branch is behind main: 1 newer entry is missing, the last is entry 2 (https://github.com/o/n/pull/2: m)");
  CHECK(out.items()[0].severity == diag::Severity::kWarning);
  CHECK(changelog::compare(history.base, *history.head, {"7", {}}, out).accepted);
}

TEST_CASE("history: with tip a branch that is behind has lost what the base has") {
  const Parted parted;
  const changelog::HistoryQuestion question{.file = kFile, .base = "main", .head = "topic", .tip = true};
  const auto history = changelog::read_history(open(parted.sandbox), question).value();
  CHECK(history.base->text == parted.main);
  diag::Diagnostics out;
  CHECK(changelog::check_behind(history, question, out) == 0);
  CHECK_FALSE(changelog::compare(history.base, *history.head, {"7", {}}, out).accepted);
}

TEST_CASE("history: without a head the working tree counts, committed or not") {
  const Parted parted;
  const changelog::HistoryQuestion question{.file = kFile, .base = "main"};
  parted.sandbox.write(kFile, parted.topic + "\n" + entry("w", pull(7)));
  const auto history = changelog::read_history(open(parted.sandbox), question).value();
  CHECK(history.base->text == parted.first);
  CHECK(history.head->text == parted.topic + "\n" + entry("w", pull(7)));
  CHECK_FALSE(history.to.has_value());
}

TEST_CASE("history: a base merged into the working tree is not counted as the branch's additions") {
  const Parted parted;
  parted.sandbox.write(kFile, parted.main + "\n" + entry("t", pull(7)));
  const changelog::HistoryQuestion question{.file = kFile, .base = "main"};
  const auto history = changelog::read_history(open(parted.sandbox), question).value();
  CHECK(history.base->text == parted.main);
  diag::Diagnostics out;
  CHECK(changelog::check_behind(history, question, out) == 0);
  CHECK(changelog::compare(history.base, *history.head, {"7", {}}, out).accepted);
}

TEST_CASE("history: a file that one side lacks is absent there, not empty") {
  const test::GitRepository sandbox;
  sandbox.commit_file("other", "x");
  sandbox.git({"checkout", "--quiet", "-b", "topic"});
  sandbox.commit_file(kFile, entry("a", pull(1)));
  const auto history = changelog::read_history(open(sandbox), {.file = kFile, .base = "main", .head = "topic"}).value();
  CHECK_FALSE(history.base.has_value());
  CHECK(history.head.has_value());
  const auto back =
      changelog::read_history(open(sandbox), {.file = kFile, .base = "topic", .head = "main", .tip = true}).value();
  CHECK(back.base.has_value());
  CHECK_FALSE(back.head.has_value());
}

TEST_CASE("history: a shallow clone without the merge base is told what to fetch") {
  const Parted parted;
  const auto clone = parted.sandbox.beside("clone");
  test::git(parted.sandbox.path(),
            {"clone", "--quiet", "--depth=1", "--no-single-branch", parted.sandbox.url(), clone.string()});
  const auto repository = git::Repository::open(clone).value();
  const auto history =
      changelog::read_history(repository, {.file = kFile, .base = "origin/main", .head = "origin/topic"});
  REQUIRE_FALSE(history.has_value());
  CHECK(history.error().rule == diag::rule::git_shallow_history);
  test::git(clone, {"fetch", "--quiet", "--unshallow", "origin"});
  CHECK(changelog::read_history(git::Repository::open(clone).value(),
                                {.file = kFile, .base = "origin/main", .head = "origin/topic"})
            .has_value());
}

TEST_CASE("matrix names: keys of matrix files of a revision or of the working tree, other kinds passed over") {
  const test::GitRepository sandbox;
  const std::string matrix = "b-entry:\n  scenarios: {}\n  runner: x\n  image: i\na-entry:\n  scenarios: {}\n";
  sandbox.write("matrix/m.yaml", matrix);
  sandbox.write("matrix/runners.yaml", "labels:\n  x: [y]\n");
  sandbox.write("matrix/notes.txt", "text");
  sandbox.commit();
  sandbox.write("matrix/m.yaml", matrix + "c-entry:\n  scenarios: {}\n");
  const git::Repository repository = open(sandbox);
  const auto head = repository.resolve("HEAD").value();
  diag::Diagnostics out;
  using Names = std::vector<std::string>;
  CHECK(changelog::matrix_names(repository, head, {"matrix"}, out).value() == Names{"b-entry", "a-entry"});
  CHECK(changelog::matrix_names(repository, head, {"matrix/m.yaml"}, out).value() == Names{"b-entry", "a-entry"});
  CHECK(changelog::matrix_names(sandbox.path(), {"matrix"}, out) == Names{"b-entry", "a-entry", "c-entry"});
  CHECK(changelog::matrix_names(repository, head, {"none"}, out).value().empty());
  CHECK(out.empty());
  sandbox.write("matrix/m.yaml", "a: [\n");
  CHECK(changelog::matrix_names(sandbox.path(), {"matrix"}, out).empty());
  CHECK(out.has_errors());
}
