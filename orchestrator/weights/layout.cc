#include "orchestrator/weights/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/weights.h"

namespace sweep::weights {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kModelPrefix = "models--";
constexpr uint64_t kLargestRef = 256;

bool is_real_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(fs::symlink_status(path, ignored));
}

bool is_link(const fs::path& path) {
  std::error_code ignored;
  return fs::is_symlink(fs::symlink_status(path, ignored));
}

// "org/name" is cached in the folder "models--org--name".
std::string cache_name(std::string_view model) {
  std::string name(kModelPrefix);
  for (const char c : model) name += c == '/' ? "--" : std::string(1, c);
  return name;
}

std::vector<std::string> names_in(const fs::path& folder, std::string_view prefix = {}) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (std::string name = it->path().filename().string(); name.starts_with(prefix)) names.push_back(std::move(name));
  std::sort(names.begin(), names.end());
  return names;
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMostNamed); ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kMostNamed) text += fmt::format(" and {} more", names.size() - kMostNamed);
  return text;
}

// "refs/main is at 0123.."
std::vector<std::string> refs_of(const fs::path& model_folder) {
  std::vector<std::string> refs;
  std::error_code error;
  for (fs::recursive_directory_iterator it(model_folder / "refs", error), end; !error && it != end;
       it.increment(error)) {
    if (is_link(it->path())) continue;
    auto commit = base::read_file(it->path(), kLargestRef);
    if (!commit) continue;
    while (!commit->empty() && (commit->back() == '\n' || commit->back() == ' ')) commit->pop_back();
    refs.push_back(fmt::format("{} is at {}", it->path().lexically_relative(model_folder).generic_string(), *commit));
  }
  std::sort(refs.begin(), refs.end());
  return refs;
}

bool is_model_folder(const fs::path& folder) {
  const bool blobs = is_real_folder(folder / "blobs");
  const bool snapshots = is_real_folder(folder / "snapshots");
  if (folder.filename().string().starts_with(kModelPrefix))
    return blobs || snapshots || is_real_folder(folder / "refs");
  return blobs && snapshots;
}

bool is_snapshot(const fs::path& folder) {
  return folder.parent_path().filename() == "snapshots" && is_model_folder(folder.parent_path().parent_path());
}

class Locator {
 public:
  Locator(const std::optional<WantedModel>& wanted, diag::Diagnostics& diagnostics)
      : wanted_(wanted), diagnostics_(diagnostics) {}

  Located in_cache(const fs::path& cache);
  Located in_model_folder(const fs::path& folder);
  Located named_snapshot(const fs::path& folder, const std::string& commit);

 private:
  Located snapshot(const fs::path& folder, const std::string& commit);
  void add(diag::RuleId rule, std::string message, std::string help = {}) {
    diagnostics_.add(diag::make(rule, std::move(message), std::move(help)));
  }
  bool check_model(const fs::path& folder);

  const std::optional<WantedModel>& wanted_;
  diag::Diagnostics& diagnostics_;
};

bool Locator::check_model(const fs::path& folder) {
  const std::string name = folder.filename().string();
  if (!wanted_ || !name.starts_with(kModelPrefix) || name == cache_name(wanted_->model)) return true;
  add(diag::rule::weights_other_model,
      fmt::format("{} is the cache of another model than \"{}\", which would be in {}", folder.string(), wanted_->model,
                  cache_name(wanted_->model)),
      "name the folder of the pinned model, or take the pin of this one");
  return false;
}

Located Locator::snapshot(const fs::path& folder, const std::string& commit) {
  const fs::path blobs = folder / "blobs";
  const fs::path root = folder / "snapshots" / commit;
  for (const fs::path& part : {folder / "snapshots", root, blobs})
    if (is_link(part)) {
      add(diag::rule::weights_path_escape, fmt::format("{} is a link; a hub cache has a folder there", part.string()),
          "name the folder that the link leads to, or stage the files as a plain folder");
      return {};
    }
  return {
      .found = true, .layout = Layout::kHubCache, .root = root, .links_into = blobs, .records = {}, .commit = commit};
}

Located Locator::named_snapshot(const fs::path& folder, const std::string& commit) {
  check_model(folder);
  if (wanted_ && commit != wanted_->revision)
    add(diag::rule::weights_mixed_revisions,
        fmt::format("the snapshot is of commit {}, the pin of {}", commit, wanted_->revision),
        "only the content decides; to load what the pin names, use the snapshot of its revision");
  return snapshot(folder, commit);
}

Located Locator::in_model_folder(const fs::path& folder) {
  const std::vector<std::string> snapshots = names_in(folder / "snapshots");
  if (!wanted_) {
    if (snapshots.size() == 1) return snapshot(folder, snapshots.front());
    add(diag::rule::weights_snapshot_missing,
        fmt::format("{} holds {} snapshots, expected one", folder.string(), snapshots.size()),
        "name one of the folders in snapshots/");
    return {};
  }
  const bool right_model = check_model(folder);
  if (std::binary_search(snapshots.begin(), snapshots.end(), wanted_->revision))
    return snapshot(folder, wanted_->revision);
  if (!right_model) return {};
  std::string there = snapshots.empty() ? "it holds no snapshot" : "it holds " + listed(snapshots);
  if (const auto refs = refs_of(folder); !refs.empty()) there += "; " + listed(refs);
  add(diag::rule::weights_snapshot_missing,
      fmt::format("{} has no snapshot of the pinned revision {}: {}", folder.string(), wanted_->revision, there),
      fmt::format("fetch it with `hf download {} --revision {}`", wanted_->model, wanted_->revision));
  return {};
}

Located Locator::in_cache(const fs::path& cache) {
  const std::vector<std::string> models = names_in(cache, kModelPrefix);
  const std::string name = wanted_ ? cache_name(wanted_->model) : models.size() == 1 ? models.front() : "";
  if (std::binary_search(models.begin(), models.end(), name)) {
    if (!is_link(cache / name)) return in_model_folder(cache / name);
    add(diag::rule::weights_path_escape, fmt::format("{} is a link", (cache / name).string()),
        "name the folder that it leads to");
    return {};
  }
  if (wanted_)
    add(diag::rule::weights_snapshot_missing,
        fmt::format("the cache {} does not hold \"{}\"; it holds {}", cache.string(), wanted_->model, listed(models)),
        fmt::format("fetch it with `hf download {} --revision {}`", wanted_->model, wanted_->revision));
  else
    add(diag::rule::weights_snapshot_missing,
        fmt::format("the cache {} holds {} models, expected one", cache.string(), models.size()),
        "name one of the folders in snapshots/ of a model");
  return {};
}

bool has_model_files(const fs::path& folder) {
  const std::vector<std::string> names = names_in(folder);
  return std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return name == "config.json" || name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json");
  });
}

// A cache holds folders of models and no model's files of its own.
bool is_cache(const fs::path& folder) {
  return !names_in(folder, kModelPrefix).empty() && !has_model_files(folder);
}

}  // namespace

std::string_view layout_name(Layout layout) {
  switch (layout) {
    case Layout::kPlain:
      return "plain";
    case Layout::kHubCache:
      return "hub-cache";
    case Layout::kLocalDir:
      return "local-dir";
  }
  return {};
}

bool is_inside(const fs::path& path, const fs::path& root) {
  return std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
}

Located locate(const fs::path& dir, const std::optional<WantedModel>& wanted, diag::Diagnostics& diagnostics) {
  std::error_code error;
  const fs::path root = fs::canonical(dir, error);
  if (error || !fs::is_directory(root, error)) {
    diagnostics.add(diag::make(
        diag::rule::weights_unreadable,
        fmt::format("{} is not a folder{}{}", dir.string(), error ? ": " : "", error ? error.message() : std::string()),
        "name the folder that holds the model's files"));
    return {};
  }
  Locator locator(wanted, diagnostics);
  if (is_snapshot(root)) {
    return locator.named_snapshot(root.parent_path().parent_path(), root.filename().string());
  }
  if (is_model_folder(root)) return locator.in_model_folder(root);
  if (is_cache(root)) return locator.in_cache(root);
  if (is_cache(root / "hub") && !has_model_files(root)) return locator.in_cache(root / "hub");
  const fs::path records = root / ".cache" / "huggingface" / "download";
  if (is_real_folder(root / ".cache") && is_real_folder(root / ".cache" / "huggingface") && is_real_folder(records))
    return {
        .found = true, .layout = Layout::kLocalDir, .root = root, .links_into = root, .records = records, .commit = {}};
  return {.found = true, .layout = Layout::kPlain, .root = root, .links_into = root, .records = {}, .commit = {}};
}

}  // namespace sweep::weights
