#include "orchestrator/changelog/matrix_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/schema/kinds.h"
#include "orchestrator/yaml/parse.h"

namespace sweep::changelog {

namespace {

namespace fs = std::filesystem;

struct NamedText {
  std::string name;
  std::string text;
};

bool is_yaml(std::string_view path) {
  return path.ends_with(".yaml") || path.ends_with(".yml");
}

diag::Result<std::vector<NamedText>> read_at(const git::Repository& repository, const git::Commit& commit,
                                             const std::vector<std::string>& paths) {
  std::vector<git::FileAt> files;
  for (const std::string& path : paths) {
    // A file is listed with its folder.
    const auto listed = repository.list(commit, is_yaml(path) ? fs::path(path).parent_path().generic_string() : path);
    if (!listed) return diag::fail(listed.error());
    std::copy_if(listed->begin(), listed->end(), std::back_inserter(files),
                 [&](const git::FileAt& file) { return is_yaml(path) ? file.path == path : is_yaml(file.path); });
  }
  auto texts = repository.read(files);
  if (!texts) return diag::fail(std::move(texts).error());
  std::vector<NamedText> result;
  for (size_t i = 0; i < files.size(); ++i) result.push_back({files[i].path, std::move((*texts)[i])});
  return result;
}

std::vector<NamedText> read_on_disk(const fs::path& root, const std::vector<std::string>& paths,
                                    diag::Diagnostics& out) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(root / path, error)) {
      files.push_back(path);
      continue;
    }
    const size_t before = files.size();
    for (fs::recursive_directory_iterator it(root / path, error), end; !error && it != end; it.increment(error)) {
      std::error_code ignored;
      if (it->is_regular_file(ignored) && is_yaml(it->path().string()))
        files.push_back(it->path().lexically_relative(root).generic_string());
    }
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(before), files.end());
  }
  std::vector<NamedText> result;
  for (const std::string& file : files) {
    auto text = base::read_file(root / file, yaml::Limits().bytes);
    if (text)
      result.push_back({file, *std::move(text)});
    else
      out.add(diag::make_at(diag::rule::file_unreadable, {file}, text.error().text()));
  }
  return result;
}

std::vector<std::string> names_in(std::vector<NamedText> files, diag::Diagnostics& out) {
  std::vector<std::string> names;
  for (NamedText& file : files) {
    diag::Diagnostics found;
    const auto document = yaml::parse(file.name, std::move(file.text), found);
    if (document == nullptr) {
      out.add_all(found);
      continue;
    }
    if (schema::find_kind(document->root(), file.name) != schema::FileKind::kMatrix) continue;
    for (const yaml::Entry& entry : document->root().entries) names.push_back(entry.key);
  }
  return names;
}

}  // namespace

std::vector<std::string> matrix_names(const fs::path& root, const std::vector<std::string>& paths,
                                      diag::Diagnostics& out) {
  return names_in(read_on_disk(root, paths, out), out);
}

diag::Result<std::vector<std::string>> matrix_names(const git::Repository& repository, const git::Commit& commit,
                                                    const std::vector<std::string>& paths, diag::Diagnostics& out) {
  auto files = read_at(repository, commit, paths);
  if (!files) return diag::fail(std::move(files).error());
  return names_in(*std::move(files), out);
}

}  // namespace sweep::changelog
