#include "orchestrator/git/repository.h"

#include <cstdlib>

#include "orchestrator/diag/rules/exec.h"
#include "orchestrator/diag/rules/git.h"
#include "tests/support/catch.h"
#include "tests/support/git_repository.h"

using namespace sweep;
namespace fs = std::filesystem;
namespace rule = diag::rule;

namespace {

git::Repository open(const fs::path& path) {
  auto repository = git::Repository::open(path);
  INFO((repository ? std::string() : repository.error().message));
  REQUIRE(repository.has_value());
  return *repository;
}

git::Commit resolve(const git::Repository& repository, std::string_view ref) {
  auto commit = repository.resolve(ref);
  INFO((commit ? std::string() : commit.error().message));
  REQUIRE(commit.has_value());
  return *commit;
}

template <class T>
diag::Diagnostic error_of(const diag::Result<T>& result) {
  REQUIRE_FALSE(result.has_value());
  return result.error();
}

// Sets a variable for one scope.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { old_ ? ::setenv(name_, old_->c_str(), 1) : ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

}  // namespace

TEST_CASE("git: the bytes of a file at a commit are exact, and an absent file is no error") {
  const test::GitRepository sandbox;
  const std::string bytes("a\r\n\0\tb\xff no newline", 18);
  const std::string first = sandbox.commit_file("folder/file name.yaml", bytes);
  sandbox.commit_file("folder/file name.yaml", "");
  const git::Repository repository = open(sandbox.path());
  CHECK(repository.read(resolve(repository, first), "folder/file name.yaml").value() == bytes);
  CHECK(repository.read(resolve(repository, "HEAD"), "folder/file name.yaml").value() == std::string());
  CHECK(repository.read(resolve(repository, "HEAD"), "folder/other").value() == std::nullopt);
  CHECK(repository.read(resolve(repository, "HEAD"), "folder/*").value() == std::nullopt);
}

TEST_CASE("git: attributes and line-ending settings do not touch the bytes") {
  const test::GitRepository sandbox;
  sandbox.write(".gitattributes", "*.yaml text eol=crlf ident\n");
  sandbox.commit_file("a.yaml", "# $Id$\nb\n");
  const git::Repository repository = open(sandbox.path());
  CHECK(repository.read(resolve(repository, "main"), "a.yaml").value() == "# $Id$\nb\n");
}

TEST_CASE("git: what is no regular file is told apart from what is absent") {
  const test::GitRepository sandbox;
  sandbox.write("folder/file", "x");
  fs::create_symlink("folder/file", sandbox / "link");
  sandbox.commit();
  const git::Repository repository = open(sandbox.path());
  const git::Commit head = resolve(repository, "HEAD");
  const diag::Diagnostic folder = error_of(repository.read(head, "folder"));
  CHECK(folder.rule == rule::git_not_a_file);
  CHECK(contains(folder.message, "\"folder\" is a folder in commit " + head.short_id()));
  CHECK(contains(error_of(repository.read(head, "link")).message, "a symbolic link"));
}

TEST_CASE("git: a folder is listed in path order, with names that need quoting, and read in one run") {
  const test::GitRepository sandbox;
  sandbox.write("f/b.yaml", "B");
  sandbox.write("f/a\"\xc3\xa9\n.yaml", "A\n");
  sandbox.write("f/sub/c", "");
  sandbox.write("fx/d", "D");
  fs::create_symlink("b.yaml", sandbox / "f/link");
  sandbox.commit();
  const git::Repository repository = open(sandbox.path());
  const git::Commit head = resolve(repository, "HEAD");
  for (const char* name : {"f", "f/"}) {
    const auto files = repository.list(head, name).value();
    REQUIRE(files.size() == 3);
    CHECK(files[0].path == "f/a\"\xc3\xa9\n.yaml");
    CHECK(files[1].path == "f/b.yaml");
    CHECK(files[2].path == "f/sub/c");
    CHECK(repository.read(files).value() == std::vector<std::string>{"A\n", "B", ""});
  }
  CHECK(repository.list(head, "").value().size() == 4);
  CHECK(repository.list(head, "none").value().empty());
  CHECK(repository.read(std::vector<git::FileAt>{}).value().empty());
  const std::vector<git::FileAt> missing{{"f/b.yaml", std::string(40, '1')}};
  CHECK(error_of(repository.read(missing)).rule == rule::git_failed);
}

TEST_CASE("git: branches, tags, abbreviated ids and remote branches resolve to commits") {
  const test::GitRepository sandbox("trunk");
  const std::string first = sandbox.commit_file("f", "1");
  sandbox.git({"tag", "--annotate", "v1", "--message", "m"});
  const std::string second = sandbox.commit_file("f", "2");
  const git::Repository repository = open(sandbox.path());
  for (const std::string& name : {std::string("v1"), std::string("trunk~1"), first, first.substr(0, 10)})
    CHECK(resolve(repository, name).id() == first);
  CHECK(resolve(repository, "HEAD").id() == second);
}

TEST_CASE("git: a text that git could take for an option is refused") {
  const test::GitRepository sandbox;
  sandbox.commit_file("f", "1");
  const git::Repository repository = open(sandbox.path());
  for (const std::string& ref : {std::string("--help"), std::string("-"), std::string("--output=x"), std::string(),
                                 std::string("a\nb"), std::string("a\0b", 3)})
    CHECK(error_of(repository.resolve(ref)).rule == rule::git_bad_ref);
  CHECK_FALSE(fs::exists(sandbox / "x"));
}

TEST_CASE("git: an unknown revision says how to get it") {
  const test::GitRepository sandbox;
  sandbox.commit_file("f", "1");
  const git::Repository repository = open(sandbox.path());
  const diag::Diagnostic name = error_of(repository.resolve("topic"));
  CHECK(name.rule == rule::git_unknown_ref);
  CHECK(name.message == "revision \"topic\" is not in this clone");
  CHECK(
      contains(error_of(repository.resolve("origin/topic")).help, "git fetch origin topic:refs/remotes/origin/topic"));
  const std::string id(40, 'a');
  CHECK(contains(error_of(repository.resolve(id)).help, "git fetch --depth=1 origin " + id));
  CHECK(contains(error_of(repository.resolve(std::string(40, '0'))).message, "all zeros"));
  CHECK(error_of(repository.resolve("HEAD:f")).rule == rule::git_unknown_ref);

  test::git(sandbox.path(), {"clone", "--quiet", sandbox.url(), sandbox.beside("clone").string()});
  test::git(sandbox.beside("clone"), {"checkout", "--quiet", "-b", "topic"});
  test::git(sandbox.beside("clone"), {"branch", "--quiet", "--delete", "main"});
  CHECK(error_of(open(sandbox.beside("clone")).resolve("main")).help == "did you mean \"origin/main\"?");
}

TEST_CASE("git: merge base and ancestry of branches that parted") {
  const test::GitRepository sandbox;
  const std::string fork = sandbox.commit_file("f", "1");
  sandbox.git({"checkout", "--quiet", "-b", "topic"});
  sandbox.commit_file("g", "2");
  sandbox.git({"checkout", "--quiet", "main"});
  sandbox.commit_file("f", "3");
  sandbox.git({"checkout", "--quiet", "--orphan", "other"});
  sandbox.commit_file("f", "4");
  const git::Repository repository = open(sandbox.path());
  const git::Commit main = resolve(repository, "main");
  const git::Commit topic = resolve(repository, "topic");
  CHECK(repository.merge_base(main, topic).value().id() == fork);
  CHECK(repository.merge_base(main, main).value() == main);
  CHECK(repository.is_ancestor(resolve(repository, fork), topic).value());
  CHECK(repository.is_ancestor(topic, topic).value());
  CHECK_FALSE(repository.is_ancestor(main, topic).value());
  const diag::Diagnostic none = error_of(repository.merge_base(main, resolve(repository, "other")));
  CHECK(none.rule == rule::git_no_merge_base);
}

TEST_CASE("git: a shallow clone that lacks the merge base says what to fetch, and is good after fetching it") {
  const test::GitRepository sandbox;
  sandbox.commit_file("f", "1");
  sandbox.git({"branch", "topic"});
  for (int i = 0; i < 5; ++i) sandbox.commit_file("f", std::to_string(i));
  sandbox.git({"checkout", "--quiet", "topic"});
  sandbox.commit_file("g", "2");
  const fs::path clone = sandbox.beside("clone");
  test::git(sandbox.path(), {"clone", "--quiet", "--depth=1", "--no-single-branch", sandbox.url(), clone.string()});
  const git::Repository shallow = open(clone);
  CHECK(shallow.is_shallow());
  const git::Commit main = resolve(shallow, "origin/main");
  const git::Commit topic = resolve(shallow, "origin/topic");
  const diag::Diagnostic cut = error_of(shallow.merge_base(main, topic));
  CHECK(cut.rule == rule::git_shallow_history);
  CHECK(contains(cut.message, main.short_id()));
  CHECK(contains(cut.help, "git fetch --unshallow origin"));
  CHECK(contains(cut.help, "fetch-depth: 0"));
  CHECK(error_of(shallow.is_ancestor(main, topic)).rule == rule::git_shallow_history);
  CHECK(error_of(shallow.resolve("origin/main~1")).message ==
        "revision \"origin/main~1\" is not in this shallow clone");

  test::git(clone, {"fetch", "--quiet", "--unshallow", "origin"});
  const git::Repository deep = open(clone);
  CHECK_FALSE(deep.is_shallow());
  CHECK(deep.merge_base(main, topic).has_value());
}

TEST_CASE("git: a path outside any repository, a missing path and a bare repository are told apart") {
  const test::TestDir folder;
  CHECK(error_of(git::Repository::open(folder.path())).message ==
        "\"" + folder.path().string() + "\" is in no git repository");
  CHECK(contains(error_of(git::Repository::open(folder / "none/x")).message, "does not exist"));
  test::git(folder.path(), {"init", "--quiet", "--bare", "bare.git"});
  const diag::Diagnostic bare = error_of(git::Repository::open(folder / "bare.git"));
  CHECK(bare.rule == rule::git_not_a_repository);
  CHECK(contains(bare.message, "without a working tree"));
}

TEST_CASE("git: the working tree is found from a file and from a folder inside it, and paths are named from its top") {
  const test::GitRepository sandbox;
  sandbox.commit_file("a/b/file", "1");
  const fs::path top = fs::canonical(sandbox.path());
  const git::Repository repository = open(sandbox / "a/b/file");
  CHECK(repository.root() == top);
  CHECK(open(sandbox / "a/b").root() == top);
  CHECK(repository.path_in_tree(sandbox / "a/b/../b/file") == "a/b/file");
  CHECK(repository.path_in_tree(sandbox / "a/new") == "a/new");
  CHECK(repository.path_in_tree(sandbox.beside("outside")) == std::nullopt);
  fs::create_directory_symlink(sandbox / "a", sandbox.beside("link"));
  CHECK(repository.path_in_tree(sandbox.beside("link") / "b/file") == "a/b/file");
}

TEST_CASE("git: a linked working tree and a submodule are their own roots") {
  const test::GitRepository sandbox;
  sandbox.commit_file("file", "1");
  const fs::path linked = sandbox.beside("linked");
  sandbox.git({"worktree", "add", "--quiet", "-b", "topic", linked.string()});
  CHECK(open(linked).root() == fs::canonical(linked));
  CHECK(open(linked).read(resolve(open(linked), "topic"), "file").value() == "1");

  const test::GitRepository outer;
  outer.git({"submodule", "--quiet", "add", sandbox.url(), "inner"});
  outer.commit();
  const git::Repository inner = open(outer / "inner/file");
  CHECK(inner.root() == fs::canonical(outer / "inner"));
  CHECK(inner.read(resolve(inner, "HEAD"), "file").value() == "1");
  const git::Repository whole = open(outer.path());
  CHECK(contains(error_of(whole.read(resolve(whole, "HEAD"), "inner")).message, "a submodule"));
}

TEST_CASE("git: variables that point git elsewhere do not change which repository is read") {
  const test::GitRepository one;
  const test::GitRepository two;
  one.commit_file("file", "one");
  two.commit_file("file", "two");
  const Variable dir("GIT_DIR", (two / ".git").string());
  const Variable tree("GIT_WORK_TREE", two.path().string());
  const Variable index("GIT_INDEX_FILE", (two / ".git/index").string());
  const Variable objects("GIT_OBJECT_DIRECTORY", (two / ".git/objects").string());
  const git::Repository repository = open(one.path());
  CHECK(repository.read(resolve(repository, "HEAD"), "file").value() == "one");
}

TEST_CASE("git: replaced objects do not rewrite history") {
  const test::GitRepository sandbox;
  const std::string first = sandbox.commit_file("file", "1");
  const std::string second = sandbox.commit_file("file", "2");
  sandbox.git({"replace", second, first});
  const git::Repository repository = open(sandbox.path());
  CHECK(repository.read(resolve(repository, second), "file").value() == "2");
}

TEST_CASE("git: a repository of another user says how to trust it") {
  const test::GitRepository sandbox;
  sandbox.commit_file("file", "1");
  const Variable other("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1");
  const Variable config("GIT_CONFIG_GLOBAL", "/dev/null");
  const Variable system("GIT_CONFIG_NOSYSTEM", "1");
  const diag::Diagnostic error = error_of(git::Repository::open(sandbox.path()));
  CHECK(error.rule == rule::git_dubious_ownership);
  CHECK(contains(error.help, "safe.directory"));
}

TEST_CASE("git: a host without git says so") {
  const test::GitRepository sandbox;
  const test::TestDir empty;
  const Variable path("PATH", empty.path().string());
  CHECK(error_of(git::Repository::open(sandbox.path())).rule == rule::git_not_installed);
}

TEST_CASE("git: a stop request ends the work") {
  const test::GitRepository sandbox;
  std::stop_source source;
  source.request_stop();
  CHECK(error_of(git::Repository::open(sandbox.path(), source.get_token())).rule == rule::exec_interrupted);
}

TEST_CASE("git: repositories with SHA-256 objects work alike") {
  const test::TestDir probe;
  if (!test::try_git(probe.path(), {"init", "--quiet", "--object-format=sha256", "x"}))
    SWEEP_SKIP("this git has no SHA-256 repositories");
  const test::GitRepository sandbox("main", {"--object-format=sha256"});
  const std::string id = sandbox.commit_file("file", "1");
  const git::Repository repository = open(sandbox.path());
  CHECK(resolve(repository, "main").id() == id);
  CHECK(id.size() == 64);
  CHECK(repository.read(resolve(repository, id), "file").value() == "1");
}

TEST_CASE("git: the three sides of a conflicted file are read from the index") {
  const test::GitRepository sandbox;
  sandbox.commit_file("sub/file", "base\n");
  sandbox.git({"checkout", "--quiet", "-b", "topic"});
  sandbox.commit_file("sub/file", "theirs\n");
  sandbox.git({"checkout", "--quiet", "main"});
  sandbox.commit_file("sub/file", "ours\n");
  CHECK_FALSE(test::try_git(sandbox.path(), {"merge", "--quiet", "topic"}));
  const git::Repository repository = open(sandbox / "sub");
  CHECK(repository.read_stage(git::Stage::kBase, "sub/file").value() == "base\n");
  CHECK(repository.read_stage(git::Stage::kOurs, "sub/file").value() == "ours\n");
  CHECK(repository.read_stage(git::Stage::kTheirs, "sub/file").value() == "theirs\n");
  CHECK(repository.read_stage(git::Stage::kTheirs, "other").value() == std::nullopt);
}

TEST_CASE("git: a damaged object store is reported in git's own words") {
  const test::GitRepository sandbox;
  const std::string id = sandbox.commit_file("file", "1");
  fs::remove_all(sandbox / ".git/objects" / id.substr(0, 2));
  const git::Repository repository = open(sandbox.path());
  const auto head = repository.resolve("HEAD");
  REQUIRE_FALSE(head.has_value());
}
