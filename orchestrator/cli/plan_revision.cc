#include "orchestrator/cli/plan_revision.h"

#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/base/file.h"
#include "orchestrator/cli/layout.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/pipeline/locations.h"
#include "orchestrator/yaml/parse.h"

namespace sweep::cli {

namespace {

namespace fs = std::filesystem;
using schema::FileKind;
using OptionalCommit = std::optional<git::Commit>;

}  // namespace

diag::Result<RevisionPlace> find_revision_place(const Context& context) {
  const auto at = [&](const fs::path& path, bool is_checkout) -> diag::Result<RevisionPlace> {
    auto repository = git::Repository::open(path, context.stop);
    if (!repository) return diag::fail(std::move(repository).error());
    std::string folder;
    if (is_checkout) folder = repository->path_in_tree(path).value_or(std::string());
    return RevisionPlace{*std::move(repository), folder == "." ? std::string() : folder};
  };
  if (context.root) return at(*context.root, true);
  std::error_code ignored;
  const fs::path current = fs::current_path(ignored);
  const auto locations = pipeline::find_locations({});
  if (!locations) return at(current, false);
  // The launcher's checkout is only meant where the current folder says nothing.
  const fs::path below = current.lexically_relative(locations->root);
  if (below.empty() || *below.begin() == "..")
    if (auto here = at(current, false)) return here;
  return at(locations->root, true);
}

std::string RevisionReader::in_tree(std::string_view path) const {
  return folder_.empty() ? std::string(path) : fmt::format("{}/{}", folder_, path);
}

diag::Result<RevisionReader::Files> RevisionReader::list(const OptionalCommit& at, std::string_view folder) const {
  if (at) return repository_.list(*at, folder);
  Files files;
  std::error_code error;
  const fs::path top = repository_.root() / folder;
  for (fs::recursive_directory_iterator it(top, fs::directory_options::skip_permission_denied, error), end;
       !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->is_regular_file(ignored))
      files.push_back({it->path().lexically_relative(repository_.root()).generic_string(), {}});
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return files;
}

diag::Result<std::vector<std::string>> RevisionReader::read(const OptionalCommit& at, const Files& files) const {
  if (at) return repository_.read(files);
  std::vector<std::string> texts;
  for (const git::FileAt& file : files) {
    auto text = base::read_file(repository_.root() / file.path, yaml::Limits().bytes);
    if (!text) return diag::fail(diag::make_at(diag::rule::file_unreadable, {file.path}, text.error().text()));
    texts.push_back(*std::move(text));
  }
  return texts;
}

// Those of the paths that are there, in their order.
diag::Result<RevisionReader::Files> RevisionReader::find(const OptionalCommit& at,
                                                         const std::vector<std::string>& paths) const {
  Files found;
  for (const std::string& path : paths) {
    if (!at) {
      std::error_code ignored;
      if (fs::is_regular_file(repository_.root() / path, ignored)) found.push_back({path, {}});
      continue;
    }
    const size_t slash = path.rfind('/');
    auto beside = list(at, slash == std::string::npos ? std::string_view() : std::string_view(path).substr(0, slash));
    if (!beside) return diag::fail(std::move(beside).error());
    for (git::FileAt& file : *beside)
      if (file.path == path) found.push_back(std::move(file));
  }
  return found;
}

diag::Result<diag::Done> RevisionReader::add(const OptionalCommit& at, const Files& files, const std::string& prefix,
                                             std::optional<FileKind> kind, std::vector<schema::SourceText>& to) const {
  auto texts = read(at, files);
  if (!texts) return diag::fail(std::move(texts).error());
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string& path = files[i].path;
    // Files of the peer's layout, or named ones, have their own policy of research and acceptance.
    to.push_back({.name = prefix + path,
                  .path = folder_.empty() ? path : path.substr(folder_.size() + 1),
                  .text = std::move((*texts)[i]),
                  .kind = kind,
                  .outside_root = kind.has_value() && !path.starts_with(in_tree("matrix/"))});
  }
  return diag::Done{};
}

// The matrix files that were named, else those of the peer's layout that are there; none: the layout is ours.
diag::Result<RevisionReader::Files> RevisionReader::find_matrix(const OptionalCommit& at,
                                                                const std::string& prefix) const {
  if (named_.matrix.empty()) {
    std::vector<std::string> paths;
    for (const char* path : kPeerMatrix) paths.push_back(in_tree(path));
    return find(at, paths);
  }
  auto files = find(at, named_.matrix);
  if (!files) return files;
  for (const std::string& path : named_.matrix)
    if (std::none_of(files->begin(), files->end(), [&](const auto& file) { return file.path == path; }))
      return diag::fail(diag::make_at(diag::rule::file_unreadable, {prefix + path}, "there is no such file",
                                      "files of --config-files must be in both revisions"));
  return files;
}

// The runner file that was named, else the peer's beside its matrix.
diag::Result<RevisionReader::Files> RevisionReader::find_runners(const OptionalCommit& at, bool is_ours) const {
  if (named_.runners) return find(at, {*named_.runners});
  if (is_ours) return Files();
  return find(at, {in_tree(kPeerRunners)});
}

// Our matrix and what entries refer to.
diag::Result<RevisionReader::OwnFiles> RevisionReader::find_own(const OptionalCommit& at, bool is_ours,
                                                                bool has_runners) const {
  OwnFiles own;
  for (const char* folder : {"matrix", "recipes"}) {
    auto files = list(at, in_tree(folder));
    if (!files) return diag::fail(std::move(files).error());
    for (git::FileAt& file : *files) {
      if (!schema::is_configuration_file(file.path)) continue;
      const bool is_runners = file.path == in_tree("matrix/runners.yaml");
      if (is_runners && has_runners) continue;
      const bool is_context = !file.path.starts_with(in_tree("matrix/")) ||
                              file.path.starts_with(in_tree("matrix/acceptance/")) ||
                              file.path.starts_with(in_tree("matrix/models/"));
      if (is_context || is_runners || is_ours)
        (is_ours && !is_context ? own.matrix : own.context).push_back(std::move(file));
    }
  }
  return own;
}

diag::Result<schema::Checkout> RevisionReader::load(const OptionalCommit& at, const std::string& prefix) const {
  const auto matrix = find_matrix(at, prefix);
  if (!matrix) return diag::fail(matrix.error());
  const bool is_ours = matrix->empty();
  const auto runners = find_runners(at, is_ours);
  if (!runners) return diag::fail(runners.error());
  const auto own = find_own(at, is_ours, !runners->empty());
  if (!own) return diag::fail(own.error());
  schema::TextSelection selection;
  for (const auto& [files, kind, to] : {std::tuple{&*runners, std::optional(FileKind::kRunners), &selection.targets},
                                        std::tuple{&*matrix, std::optional(FileKind::kMatrix), &selection.targets},
                                        std::tuple{&own->matrix, std::optional<FileKind>(), &selection.targets},
                                        std::tuple{&own->context, std::optional<FileKind>(), &selection.context}})
    if (const auto added = add(at, *files, prefix, kind, *to); !added) return diag::fail(added.error());
  return schema::load_texts(std::move(selection));
}

diag::Result<std::string> RevisionReader::find_changelog(const OptionalCommit& at) const {
  for (const char* name : kChangelogFiles) {
    const auto found = find(at, {in_tree(name)});
    if (!found) return diag::fail(found.error());
    if (!found->empty()) return in_tree(name);
  }
  return in_tree(kChangelogFiles[0]);
}

}  // namespace sweep::cli
