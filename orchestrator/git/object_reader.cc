// Files of commits and of the index, as bytes.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "orchestrator/diag/rules/git.h"
#include "orchestrator/git/command.h"
#include "orchestrator/git/repository.h"

namespace sweep::git {

namespace {

namespace rule = diag::rule;

// "MODE TYPE ID\tPATH" of ls-tree, "MODE ID STAGE\tPATH" of ls-files --stage; records end with NUL.
struct TreeRecord {
  std::string_view mode, second, third, path;
};

std::vector<TreeRecord> parse_records(std::string_view text) {
  std::vector<TreeRecord> records;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\0'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t first = line.find(' ');
    const size_t second = line.find(' ', first + 1);
    const size_t tab = line.find('\t');
    if (tab == std::string_view::npos || second > tab) continue;
    records.push_back({line.substr(0, first), line.substr(first + 1, second - first - 1),
                       line.substr(second + 1, tab - second - 1), line.substr(tab + 1)});
  }
  return records;
}

bool is_regular(std::string_view mode) {
  return mode == "100644" || mode == "100755" || mode == "100664";
}

std::string_view kind_of(std::string_view mode) {
  if (mode == "120000") return "a symbolic link";
  if (mode == "160000") return "a submodule";
  if (mode == "040000") return "a folder";
  return "no regular file";
}

base::Unexpected<diag::Diagnostic> not_a_file(std::string_view path, std::string_view mode, std::string_view where) {
  return diag::fail(rule::git_not_a_file, fmt::format("\"{}\" is {} in {}", path, kind_of(mode), where),
                    "name a regular file");
}

std::string without_slash(std::string_view folder) {
  while (folder.ends_with('/')) folder.remove_suffix(1);
  return std::string(folder == "." ? std::string_view() : folder);
}

}  // namespace

diag::Result<std::optional<std::string>> Repository::read(const Commit& commit, std::string_view path) const {
  const auto answer = run_git(root_, {"ls-tree", "-z", "--full-tree", commit.id(), "--", std::string(path)}, stop_);
  if (!answer) return diag::fail(answer.error());
  if (!answer->status.ok())
    return diag::fail(failure(fmt::format("cannot read \"{}\" of {}", path, commit.short_id()), root_, *answer));
  for (const TreeRecord& record : parse_records(answer->output)) {
    if (record.path != path) continue;
    if (!is_regular(record.mode)) return not_a_file(path, record.mode, "commit " + commit.short_id());
    const FileAt file{std::string(path), std::string(record.third)};
    auto content = read(std::span(&file, 1));
    if (!content) return diag::fail(std::move(content).error());
    return std::optional(std::move(content->front()));
  }
  return std::optional<std::string>();
}

diag::Result<std::vector<FileAt>> Repository::list(const Commit& commit, std::string_view folder) const {
  const std::string prefix = without_slash(folder);
  std::vector<std::string> arguments{"ls-tree", "-r", "-z", "--full-tree", commit.id()};
  if (!prefix.empty()) arguments.insert(arguments.end(), {"--", prefix + "/"});
  const auto answer = run_git(root_, arguments, stop_);
  if (!answer) return diag::fail(answer.error());
  if (!answer->status.ok())
    return diag::fail(failure(fmt::format("cannot list \"{}\" of {}", folder, commit.short_id()), root_, *answer));
  std::vector<FileAt> files;
  for (const TreeRecord& record : parse_records(answer->output))
    if (is_regular(record.mode)) files.push_back({std::string(record.path), std::string(record.third)});
  std::sort(files.begin(), files.end(), [](const FileAt& a, const FileAt& b) { return a.path < b.path; });
  return files;
}

diag::Result<std::vector<std::string>> Repository::read(std::span<const FileAt> files) const {
  std::string request;
  for (const FileAt& file : files) request += file.object_id + "\n";
  const auto answer = run_git(root_, {"cat-file", "--batch"}, stop_, request);
  if (!answer) return diag::fail(answer.error());
  if (!answer->status.ok()) return diag::fail(failure("cannot read files", root_, *answer));
  // "ID blob SIZE\nBYTES\n" for each, or "ID missing\n".
  std::string_view rest = answer->output;
  std::vector<std::string> contents;
  contents.reserve(files.size());
  for (const FileAt& file : files) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view head = rest.substr(0, end);
    uint64_t size = 0;
    const std::string_view expected = " blob ";
    const size_t kind = head.find(expected);
    bool understood = kind != std::string_view::npos;
    if (understood) {
      const char* digits = head.data() + kind + expected.size();
      understood = std::from_chars(digits, head.data() + head.size(), size).ec == std::errc();
    }
    if (!understood || size + 1 > rest.size() - std::min(end + 1, rest.size()))
      return diag::fail(rule::git_failed,
                        fmt::format("the content of \"{}\" ({}) is not in this clone", file.path, file.object_id),
                        "fetch it: git fetch origin; `git fsck` checks the repository");
    contents.emplace_back(rest.substr(end + 1, size));
    rest.remove_prefix(end + 1 + size + 1);
  }
  return contents;
}

diag::Result<std::optional<std::string>> Repository::read_stage(Stage stage, std::string_view path) const {
  const auto answer = run_git(root_, {"ls-files", "--stage", "-z", "--full-name", "--", std::string(path)}, stop_);
  if (!answer) return diag::fail(answer.error());
  if (!answer->status.ok())
    return diag::fail(failure(fmt::format("cannot read \"{}\" of the index", path), root_, *answer));
  const std::string wanted = std::to_string(static_cast<int>(stage));
  for (const TreeRecord& record : parse_records(answer->output)) {
    if (record.path != path || record.third != wanted) continue;
    if (!is_regular(record.mode)) return not_a_file(path, record.mode, "the index");
    const FileAt file{std::string(path), std::string(record.second)};
    auto content = read(std::span(&file, 1));
    if (!content) return diag::fail(std::move(content).error());
    return std::optional(std::move(content->front()));
  }
  return std::optional<std::string>();
}

}  // namespace sweep::git
