// A real git repository in a private folder, made with the real program. The user's and the machine's configuration
// are kept out of it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/test_dir.h"

namespace sweep::test {

// Runs git in a folder; fails the test if git does. Gives standard output without the final line break.
std::string git(const std::filesystem::path& folder, const std::vector<std::string>& arguments);

// The same where failing is allowed.
bool try_git(const std::filesystem::path& folder, const std::vector<std::string>& arguments);

class GitRepository {
 public:
  // `init` are further arguments of git init, such as "--object-format=sha256".
  explicit GitRepository(const std::string& branch = "main", const std::vector<std::string>& init = {});

  std::filesystem::path path() const { return dir_ / "repository"; }
  // A folder beside the repository, for clones and linked working trees.
  std::filesystem::path beside(std::string_view name) const { return dir_ / name; }
  std::filesystem::path operator/(std::string_view name) const { return path() / name; }
  std::string url() const { return "file://" + path().string(); }

  std::string git(const std::vector<std::string>& arguments) const { return test::git(path(), arguments); }
  void write(std::string_view name, std::string_view content) const;
  // Everything in the working tree; gives the commit's id.
  std::string commit(const std::string& message = "change") const;
  // Writes one file and commits.
  std::string commit_file(std::string_view name, std::string_view content) const;

 private:
  TestDir dir_;
};

}  // namespace sweep::test
