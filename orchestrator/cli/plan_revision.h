// The matrix, the runners and what they refer to, at one revision of a repository. Private to cli/.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/cli/command.h"
#include "orchestrator/git/repository.h"
#include "orchestrator/schema/checkout.h"

namespace sweep::cli {

// Files that were named on the command line, from the top of the working tree. Nothing named: those of the layout,
// which is ours (matrix/, recipes/) or the peer's (configs/amd-master.yaml, configs/nvidia-master.yaml,
// configs/runners.yaml).
struct NamedFiles {
  std::vector<std::string> matrix;
  std::optional<std::string> runners;
};

class RevisionReader {
 public:
  // `folder`: the checkout's, from the top of the working tree; empty if it is the top.
  RevisionReader(const git::Repository& repository, std::string folder, NamedFiles named)
      : repository_(repository), folder_(std::move(folder)), named_(std::move(named)) {}

  // At a commit, or in the working tree. Names in diagnostics begin with `prefix`. Without any matrix file there: a
  // checkout without entries. Fails with what git cannot answer or what cannot be read.
  diag::Result<schema::Checkout> load(const std::optional<git::Commit>& at, const std::string& prefix) const;

  // The first of the two layouts' changelogs that is there, else ours; from the top of the working tree.
  diag::Result<std::string> find_changelog(const std::optional<git::Commit>& at) const;

 private:
  using Files = std::vector<git::FileAt>;
  struct OwnFiles {
    Files matrix;   // with the runner file
    Files context;  // only looked up
  };

  std::string in_tree(std::string_view path) const;
  diag::Result<Files> list(const std::optional<git::Commit>& at, std::string_view folder) const;
  diag::Result<std::vector<std::string>> read(const std::optional<git::Commit>& at, const Files& files) const;
  diag::Result<Files> find(const std::optional<git::Commit>& at, const std::vector<std::string>& paths) const;
  diag::Result<Files> find_matrix(const std::optional<git::Commit>& at, const std::string& prefix) const;
  diag::Result<Files> find_runners(const std::optional<git::Commit>& at, bool is_ours) const;
  diag::Result<OwnFiles> find_own(const std::optional<git::Commit>& at, bool is_ours, bool has_runners) const;
  diag::Result<diag::Done> add(const std::optional<git::Commit>& at, const Files& files, const std::string& prefix,
                               std::optional<schema::FileKind> kind, std::vector<schema::SourceText>& to) const;

  const git::Repository& repository_;
  std::string folder_;
  NamedFiles named_;
};

// Whose revisions are meant: those of --root, else of the checkout around the current folder, else of the repository
// that the current folder is in, else of the launcher's checkout.
struct RevisionPlace {
  git::Repository repository;
  std::string folder;  // of the checkout, from the top of the working tree; empty: the top
};
diag::Result<RevisionPlace> find_revision_place(const Context& context);

}  // namespace sweep::cli
