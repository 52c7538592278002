#include "orchestrator/cli/plan_revision.h"

#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/pipeline/locations.h"
#include "orchestrator/yaml/parse.h"

namespace sweep::cli {

namespace {

namespace fs = std::filesystem;
using schema::FileKind;
using OptionalCommit = std::optional<git::Commit>;

bool is_configuration(const fs::path& path) {
  const fs::path extension = path.extension();
  return (extension == ".yaml" || extension == ".yml" || extension == ".json") &&
         !path.filename().string().starts_with('.');
}

// The peer reads its files in this order (InferenceX, utils/constants.py).
const std::vector<std::string> kPeerMatrix{"configs/amd-master.yaml", "configs/nvidia-master.yaml"};
constexpr const char* kPeerRunners = "configs/runners.yaml";
constexpr const char* kChangelogs[] = {"changelog/perf-changelog.yaml", "perf-changelog.yaml"};

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
    to.push_back(
        {prefix + path, folder_.empty() ? path : path.substr(folder_.size() + 1), std::move((*texts)[i]), kind});
  }
  return diag::Done{};
}

diag::Result<schema::Checkout> RevisionReader::load(const OptionalCommit& at, const std::string& prefix) const {
  schema::TextSelection selection;
  std::vector<std::string> matrix = named_.matrix;
  std::optional<std::string> runners = named_.runners;
  if (matrix.empty()) {
    for (const std::string& path : kPeerMatrix) matrix.push_back(in_tree(path));
    if (!runners) runners = in_tree(kPeerRunners);
  }
  auto named = find(at, matrix);
  if (!named) return diag::fail(std::move(named).error());
  if (!named_.matrix.empty() && named->size() != matrix.size()) {
    for (const std::string& path : matrix)
      if (std::none_of(named->begin(), named->end(), [&](const auto& file) { return file.path == path; }))
        return diag::fail(diag::make_at(diag::rule::file_unreadable, {prefix + path}, "there is no such file",
                                        "paths of --config-files must be in both revisions"));
  }
  const bool is_ours = named->empty();
  if (runners && !is_ours) {
    auto file = find(at, {*runners});
    if (!file) return diag::fail(std::move(file).error());
    if (const auto added = add(at, *file, prefix, FileKind::kRunners, selection.targets); !added)
      return diag::fail(added.error());
  }
  if (const auto added = add(at, *named, prefix, FileKind::kMatrix, selection.targets); !added)
    return diag::fail(added.error());
  Files own, context;
  for (const char* folder : {"matrix", "recipes"}) {
    auto files = list(at, in_tree(folder));
    if (!files) return diag::fail(std::move(files).error());
    for (git::FileAt& file : *files) {
      if (!is_configuration(file.path)) continue;
      const bool is_matrix = std::string_view(folder) == "matrix" &&
                             !file.path.starts_with(in_tree("matrix/acceptance/")) &&
                             !file.path.starts_with(in_tree("matrix/models/"));
      const bool is_runners = file.path == in_tree("matrix/runners.yaml");
      if (is_matrix && is_ours)
        own.push_back(std::move(file));
      else if (!is_matrix || (is_runners && !runners))
        context.push_back(std::move(file));
    }
  }
  if (const auto added = add(at, own, prefix, std::nullopt, selection.targets); !added)
    return diag::fail(added.error());
  if (const auto added = add(at, context, prefix, std::nullopt, selection.context); !added)
    return diag::fail(added.error());
  return schema::load_texts(std::move(selection));
}

diag::Result<std::string> RevisionReader::find_changelog(const OptionalCommit& at) const {
  for (const char* name : kChangelogs) {
    const auto found = find(at, {in_tree(name)});
    if (!found) return diag::fail(found.error());
    if (!found->empty()) return in_tree(name);
  }
  return in_tree(kChangelogs[0]);
}

}  // namespace sweep::cli
