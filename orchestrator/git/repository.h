// Read access to the revisions of a repository, through the program `git`: no shell, no library, nothing written. The
// network is touched only where git itself does so to read an object of a partial clone. Every failure is a diagnostic
// of the family git/ (exec/timeout and exec/interrupted aside) that says what to do.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/diag/diagnostic.h"

namespace sweep::git {

// A commit's full object id, 40 or 64 hexadecimal digits: proof that a name was resolved. The same wherever the branch
// moves afterwards.
class Commit {
 public:
  const std::string& id() const { return id_; }
  std::string short_id() const { return id_.substr(0, 12); }
  friend bool operator==(const Commit& a, const Commit& b) { return a.id_ == b.id_; }

 private:
  friend class Repository;
  explicit Commit(std::string id) : id_(std::move(id)) {}

  std::string id_;
};

// The side of a conflicted file in the index (git-merge(1)).
enum class Stage : uint8_t { kBase = 1, kOurs = 2, kTheirs = 3 };

struct FileAt {
  std::string path;       // from the top of the working tree, with "/"
  std::string object_id;  // equal ids mean equal bytes
};

// Paths of files are relative to the top of the working tree and use "/". Cheap to copy.
class Repository {
 public:
  // The repository whose working tree holds `path`, an existing file or folder.
  static diag::Result<Repository> open(const std::filesystem::path& path, std::stop_token stop = {});

  // Top of the working tree (of the linked one, or of the submodule, that holds the path), absolute.
  const std::filesystem::path& root() const { return root_; }
  bool is_shallow() const { return shallow_; }

  // The path as git names it; nothing for a path outside the working tree.
  std::optional<std::string> path_in_tree(const std::filesystem::path& path) const;

  // The commit that a branch, tag, id or other revision text names.
  diag::Result<Commit> resolve(std::string_view ref) const;

  // The exact bytes of a file; nothing if the commit has no such file. Fails for what is no regular file.
  diag::Result<std::optional<std::string>> read(const Commit& commit, std::string_view path) const;

  // Regular files below a folder ("" for all), in path order; empty if the folder does not exist.
  diag::Result<std::vector<FileAt>> list(const Commit& commit, std::string_view folder) const;

  // The bytes of several listed files, in their order, with one run of git.
  diag::Result<std::vector<std::string>> read(std::span<const FileAt> files) const;

  // The best common ancestor. In a shallow clone that does not reach it: git/shallow-history.
  diag::Result<Commit> merge_base(const Commit& a, const Commit& b) const;

  // Whether `descendant` contains `ancestor`; a commit contains itself. Where a shallow clone cannot tell:
  // git/shallow-history.
  diag::Result<bool> is_ancestor(const Commit& ancestor, const Commit& descendant) const;

  // One side of a conflicted file; nothing if the index has no such side.
  diag::Result<std::optional<std::string>> read_stage(Stage stage, std::string_view path) const;

 private:
  Repository(std::filesystem::path root, bool shallow, std::stop_token stop)
      : root_(std::move(root)), shallow_(shallow), stop_(std::move(stop)) {}

  diag::Diagnostic unknown_ref(std::string_view ref) const;
  diag::Diagnostic too_shallow(std::string_view what) const;

  std::filesystem::path root_;
  bool shallow_ = false;
  std::stop_token stop_;
};

// Whether a text may be passed to git as a revision at all.
diag::Result<diag::Done> check_ref(std::string_view ref);

}  // namespace sweep::git
