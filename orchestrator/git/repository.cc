#include "orchestrator/git/repository.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "orchestrator/diag/rules/git.h"
#include "orchestrator/git/command.h"

namespace sweep::git {

namespace {

namespace fs = std::filesystem;
namespace rule = diag::rule;

bool is_object_id(std::string_view text) {
  return (text.size() == 40 || text.size() == 64) &&
         text.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
}

std::string_view first_line(std::string_view& rest) {
  const size_t end = std::min(rest.find('\n'), rest.size());
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return line;
}

// The clone lacks what an id names, or has never heard a name.
std::string how_to_fetch(std::string_view ref) {
  if (is_object_id(ref))
    return fmt::format(
        "fetch it: git fetch --depth=1 origin {}; in GitHub Actions: actions/checkout with fetch-depth: 0", ref);
  if (ref.starts_with("origin/"))
    return fmt::format(
        "fetch it: git fetch origin {0}:refs/remotes/origin/{0}; in GitHub Actions: actions/checkout with "
        "fetch-depth: 0",
        ref.substr(7));
  return "`git branch --all` and `git tag` list the names of this clone; `git fetch origin` brings new ones, in GitHub "
         "Actions actions/checkout with fetch-depth: 0";
}

}  // namespace

diag::Result<diag::Done> check_ref(std::string_view ref) {
  const bool control =
      std::any_of(ref.begin(), ref.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  if (ref.empty()) return diag::fail(rule::git_bad_ref, "the name of a revision is empty", "name a branch or a commit");
  if (ref.starts_with('-') || control)
    return diag::fail(rule::git_bad_ref,
                      fmt::format("\"{}\" cannot be the name of a revision: {}", ref,
                                  control ? "it has control characters" : "it begins with \"-\""),
                      "name a branch, a tag or a commit");
  return diag::Done{};
}

diag::Result<Repository> Repository::open(const fs::path& path, std::stop_token stop) {
  std::error_code error;
  const fs::path start = fs::is_directory(path, error) ? path : path.parent_path();
  const fs::path folder = fs::absolute(start.empty() ? fs::path(".") : start, error);
  if (error || !fs::is_directory(folder, error))
    return diag::fail(rule::git_not_a_repository, fmt::format("\"{}\" does not exist", path.string()),
                      "name a file or folder inside a git working tree");
  const auto answer = run_git(folder, {"rev-parse", "--is-shallow-repository", "--show-toplevel"}, stop);
  if (!answer) return diag::fail(answer.error());
  if (!answer->status.ok()) {
    const diag::Diagnostic failed = failure(fmt::format("cannot open \"{}\"", folder.string()), folder, *answer);
    const std::string_view words = answer->errors;
    const bool bare = words.find("must be run in a work tree") != std::string_view::npos;
    if (!bare && words.find("not a git repository") == std::string_view::npos) return diag::fail(failed);
    return diag::fail(rule::git_not_a_repository,
                      fmt::format("\"{}\" is {}", folder.string(),
                                  bare ? "in a repository without a working tree" : "in no git repository"),
                      "run inside a clone, or name one with `--root DIR`");
  }
  std::string_view rest = answer->output;
  const bool shallow = first_line(rest) == "true";
  return Repository(fs::path(line_of(rest)), shallow, std::move(stop));
}

std::optional<std::string> Repository::path_in_tree(const fs::path& path) const {
  // The folder may be reached through links; a link as the file itself is the file's own name.
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error).lexically_normal();
  const fs::path folder = fs::weakly_canonical(absolute.parent_path(), error);
  if (error) return std::nullopt;
  const fs::path top = fs::weakly_canonical(root_, error);
  const fs::path relative = (folder / absolute.filename()).lexically_normal().lexically_relative(top);
  if (relative.empty() || *relative.begin() == "..") return std::nullopt;
  return relative.generic_string();
}

diag::Diagnostic Repository::unknown_ref(std::string_view ref) const {
  if (ref.find_first_not_of('0') == std::string_view::npos && is_object_id(ref))
    return diag::make(rule::git_unknown_ref, "the revision is all zeros, which names no commit",
                      "GitHub sends it as \"before\" of a new branch: compare with the default branch instead");
  std::string help = how_to_fetch(ref);
  if (!is_object_id(ref) && !ref.starts_with("origin/")) {
    const auto remote = run_git(
        root_, {"rev-parse", "--verify", "--quiet", fmt::format("refs/remotes/origin/{}^{{commit}}", ref)}, stop_);
    if (remote && remote->status.ok()) help = fmt::format("did you mean \"origin/{}\"?", ref);
  }
  return diag::make(rule::git_unknown_ref,
                    fmt::format("revision \"{}\" is not in this {}clone", ref, shallow_ ? "shallow " : ""),
                    std::move(help));
}

diag::Result<Commit> Repository::resolve(std::string_view ref) const {
  if (const auto checked = check_ref(ref); !checked) return diag::fail(checked.error());
  const auto answer = run_git(root_, {"rev-parse", "--verify", "--quiet", fmt::format("{}^{{commit}}", ref)}, stop_);
  if (!answer) return diag::fail(answer.error());
  const std::string_view id = line_of(answer->output);
  if (answer->status.ok() && is_object_id(id)) return Commit(std::string(id));
  if (answer->status.code == 128 && !answer->errors.empty() && answer->errors.find("dubious") != std::string::npos)
    return diag::fail(failure("cannot read revisions", root_, *answer));
  return diag::fail(unknown_ref(ref));
}

diag::Diagnostic Repository::too_shallow(std::string_view what) const {
  return diag::make(
      rule::git_shallow_history, fmt::format("this shallow clone does not reach {}", what),
      "fetch more history: git fetch --deepen=100 origin, repeated, or git fetch --unshallow origin; in GitHub "
      "Actions: actions/checkout with fetch-depth: 0");
}

diag::Result<Commit> Repository::merge_base(const Commit& a, const Commit& b) const {
  const auto answer = run_git(root_, {"merge-base", a.id(), b.id()}, stop_);
  if (!answer) return diag::fail(answer.error());
  const std::string what = fmt::format("the common ancestor of {} and {}", a.short_id(), b.short_id());
  std::string_view rest = answer->output;
  const std::string_view id = first_line(rest);
  if (answer->status.ok() && is_object_id(id)) return Commit(std::string(id));
  if (answer->status.code != 1) return diag::fail(failure("cannot find " + what, root_, *answer));
  if (shallow_) return diag::fail(too_shallow(what));
  return diag::fail(rule::git_no_merge_base,
                    fmt::format("revisions {} and {} have no common ancestor", a.short_id(), b.short_id()),
                    "compare revisions of one project");
}

diag::Result<bool> Repository::is_ancestor(const Commit& ancestor, const Commit& descendant) const {
  const auto answer = run_git(root_, {"merge-base", "--is-ancestor", ancestor.id(), descendant.id()}, stop_);
  if (!answer) return diag::fail(answer.error());
  if (answer->status.ok()) return true;
  const std::string what = fmt::format("the history between {} and {}", ancestor.short_id(), descendant.short_id());
  if (answer->status.code != 1) return diag::fail(failure("cannot read " + what, root_, *answer));
  if (shallow_) return diag::fail(too_shallow(what));
  return false;
}

}  // namespace sweep::git
