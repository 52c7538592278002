#include "orchestrator/weights/staged_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "orchestrator/diag/rules/weights.h"

namespace sweep::weights {

namespace {

namespace fs = std::filesystem;

bool is_inside(const fs::path& path, const fs::path& root) {
  const auto [root_end, ignored] = std::mismatch(root.begin(), root.end(), path.begin(), path.end());
  return root_end == root.end();
}

diag::Diagnostic at_file(diag::RuleId rule, const std::string& path, std::string message) {
  diag::Diagnostic diagnostic = diag::make(rule, fmt::format("\"{}\" {}", path, message));
  diagnostic.path = path;
  return diagnostic;
}

bool is_download_record(const fs::directory_entry& entry) {
  std::error_code ignored;
  const fs::path name = entry.path().filename();
  return (name == ".cache" || name == ".git") && fs::is_directory(entry.symlink_status(ignored));
}

class Lister {
 public:
  Lister(const fs::path& root, diag::Diagnostics& diagnostics) : root_(root), diagnostics_(diagnostics) {}

  void list() {
    std::error_code error;
    fs::recursive_directory_iterator it(root_, error);
    if (error) return fail_listing(error);
    for (const fs::recursive_directory_iterator end; it != end; it.increment(error)) {
      if (it.depth() == 0 && is_download_record(*it))
        it.disable_recursion_pending();
      else
        take(*it);
    }
    if (error) fail_listing(error);
    std::sort(files_.begin(), files_.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  }

  std::vector<StagedFile> files() && { return std::move(files_); }

 private:
  void fail_listing(const std::error_code& error) {
    diagnostics_.add(
        diag::make(diag::rule::weights_unreadable, fmt::format("cannot list {}: {}", root_.string(), error.message())));
  }

  void take(const fs::directory_entry& entry) {
    std::error_code error;
    const std::string path = entry.path().lexically_relative(root_).generic_string();
    const fs::file_status status = entry.symlink_status(error);
    if (error)
      return diagnostics_.add(at_file(diag::rule::weights_unreadable, path, "cannot be inspected: " + error.message()));
    if (fs::is_symlink(status)) return take_link(entry.path(), path);
    if (fs::is_directory(status)) return;
    if (!fs::is_regular_file(status))
      return diagnostics_.add(at_file(diag::rule::weights_unreadable, path, "is not a regular file"));
    add(path, entry.path());
  }

  void take_link(const fs::path& link, const std::string& path) {
    std::error_code error;
    const fs::path target = fs::canonical(link, error);
    if (error)
      return diagnostics_.add(
          at_file(diag::rule::weights_unreadable, path, "is a link that leads nowhere: " + error.message()));
    if (!is_inside(target, root_))
      return diagnostics_.add(at_file(diag::rule::weights_path_escape, path,
                                      fmt::format("is a link that leaves the folder, to {}", target.string())));
    if (!fs::is_regular_file(target, error))
      return diagnostics_.add(at_file(diag::rule::weights_unreadable, path, "is a link to something else than a file"));
    add(path, target);
  }

  void add(const std::string& path, const fs::path& opened) {
    std::error_code error;
    const uintmax_t size = fs::file_size(opened, error);
    if (error)
      return diagnostics_.add(at_file(diag::rule::weights_unreadable, path, "cannot be inspected: " + error.message()));
    files_.push_back({.path = path, .opened = opened, .size = size});
  }

  fs::path root_;
  diag::Diagnostics& diagnostics_;
  std::vector<StagedFile> files_;
};

}  // namespace

std::vector<StagedFile> list_staged(const fs::path& dir, diag::Diagnostics& diagnostics) {
  std::error_code error;
  const fs::path root = fs::canonical(dir, error);
  if (error || !fs::is_directory(root, error)) {
    diagnostics.add(diag::make(
        diag::rule::weights_unreadable,
        fmt::format("{} is not a folder{}{}", dir.string(), error ? ": " : "", error ? error.message() : std::string()),
        "name the folder that holds the model's files"));
    return {};
  }
  Lister lister(root, diagnostics);
  lister.list();
  return std::move(lister).files();
}

Staging stage(const fs::path& dir, const Pin&, diag::Diagnostics& diagnostics) {
  return {.layout = Layout::kPlain, .root = dir, .files = list_staged(dir, diagnostics)};
}

}  // namespace sweep::weights
