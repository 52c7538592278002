#include "orchestrator/weights/staged_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <system_error>
#include <utility>

#include "orchestrator/diag/rules/weights.h"

namespace sweep::weights {

namespace {

namespace fs = std::filesystem;

std::string kind_of_special(const fs::file_status& status) {
  switch (status.type()) {
    case fs::file_type::fifo:
      return "a named pipe";
    case fs::file_type::socket:
      return "a socket";
    case fs::file_type::block:
    case fs::file_type::character:
      return "a device";
    default:
      return "no regular file";
  }
}

class Lister {
 public:
  Lister(Staging& staging, diag::Diagnostics& diagnostics) : staging_(staging), diagnostics_(diagnostics) {}

  void list() {
    std::vector<fs::path> folders{root()};
    while (!folders.empty()) {
      const fs::path folder = std::move(folders.back());
      folders.pop_back();
      std::error_code error;
      fs::directory_iterator it(folder, error);
      for (const fs::directory_iterator end; !error && it != end; it.increment(error)) take(*it, folders);
      if (error) refuse(diag::rule::weights_unreadable, relative(folder), "cannot be listed: " + error.message());
    }
    std::sort(staging_.files.begin(), staging_.files.end(),
              [](const auto& a, const auto& b) { return a.path < b.path; });
  }

 private:
  const fs::path& root() const { return staging_.located.root; }
  std::string relative(const fs::path& path) const { return path.lexically_relative(root()).generic_string(); }

  void refuse(diag::RuleId rule, const std::string& path, std::string message, std::string help = {}) {
    diag::Diagnostic diagnostic = diag::make(rule, fmt::format("\"{}\" {}", path, message), std::move(help));
    diagnostic.path = path;
    diagnostics_.add(std::move(diagnostic));
    staging_.refused.insert(path);
  }

  void take(const fs::directory_entry& entry, std::vector<fs::path>& folders) {
    std::error_code error;
    const std::string path = relative(entry.path());
    const fs::file_status status = entry.symlink_status(error);
    if (error) return refuse(diag::rule::weights_unreadable, path, "cannot be inspected: " + error.message());
    if (fs::is_symlink(status)) return take_link(entry.path(), path);
    if (fs::is_directory(status)) {
      if (path != ".git" && path != ".cache/huggingface") folders.push_back(entry.path());
    } else if (fs::is_regular_file(status)) {
      add(path, entry.path(), false);
    } else {
      refuse(diag::rule::weights_unreadable, path,
             fmt::format("is {}, expected a regular file", kind_of_special(status)));
    }
  }

  void take_link(const fs::path& link, const std::string& path) {
    std::error_code error;
    const fs::path target = fs::canonical(link, error);
    if (error) {
      std::error_code ignored;
      return refuse(diag::rule::weights_unreadable, path,
                    fmt::format("is a link that leads nowhere: {} ({})", fs::read_symlink(link, ignored).string(),
                                error.message()),
                    "fetch the file again");
    }
    const bool in_cache = staging_.located.layout == Layout::kHubCache;
    if (!is_inside(target, staging_.located.links_into))
      return refuse(diag::rule::weights_path_escape, path,
                    fmt::format("is a link that leaves {}, to {}", in_cache ? "the model's blobs" : "the folder",
                                target.string()),
                    "put the file itself in its place; nothing outside is read");
    const fs::file_status status = fs::status(target, error);
    if (fs::is_directory(status))
      return refuse(diag::rule::weights_linked_folder, path,
                    fmt::format("is a link to the folder {}, and not followed", target.string()),
                    "put the folder itself in its place");
    if (!fs::is_regular_file(status))
      return refuse(diag::rule::weights_unreadable, path,
                    fmt::format("is a link to {}, expected a regular file", kind_of_special(status)));
    add(path, target, true);
  }

  void add(const std::string& path, const fs::path& opened, bool linked) {
    std::error_code error;
    const uintmax_t size = fs::file_size(opened, error);
    if (error) return refuse(diag::rule::weights_unreadable, path, "cannot be inspected: " + error.message());
    staging_.files.push_back({.path = path, .opened = opened, .size = size, .linked = linked});
  }

  Staging& staging_;
  diag::Diagnostics& diagnostics_;
};

// A snapshot's links are records as well: a blob is named after what it should hash to.
DownloadRecords records_of_links(const Staging& staging) {
  DownloadRecords found;
  for (const StagedFile& file : staging.files)
    if (file.linked)
      found.records.push_back(
          {.path = file.path, .commit = staging.located.commit, .etag = file.opened.filename().string()});
  found.incomplete = incomplete_blobs(staging.located.links_into);
  return found;
}

Staging stage_for(const fs::path& dir, const std::optional<WantedModel>& wanted, diag::Diagnostics& diagnostics) {
  Staging staging;
  staging.located = locate(dir, wanted, diagnostics);
  if (!staging.located.found) return staging;
  Lister(staging, diagnostics).list();
  if (staging.located.layout == Layout::kHubCache)
    staging.records = records_of_links(staging);
  else if (staging.located.layout == Layout::kLocalDir)
    staging.records = read_download_records(staging.located.records);
  return staging;
}

}  // namespace

Staging stage(const fs::path& dir, const Pin& pin, diag::Diagnostics& diagnostics) {
  return stage_for(dir, WantedModel{.model = pin.model, .revision = pin.revision}, diagnostics);
}

bool is_refused(const Staging& staging, std::string_view path) {
  if (staging.refused.empty()) return false;
  while (!path.empty()) {
    if (staging.refused.contains(std::string(path))) return true;
    const size_t slash = path.rfind('/');
    path = path.substr(0, slash == std::string_view::npos ? 0 : slash);
  }
  return staging.refused.contains(".");  // the folder as a whole
}

bool keep_if_of_pin(Staging& staging, const Pin& pin, diag::Diagnostics& diagnostics) {
  if (!staging.located.found || pin.files.empty()) return staging.located.found;
  std::unordered_set<std::string_view> staged;
  for (const StagedFile& file : staging.files) staged.insert(file.path);
  const auto is_there = [&](const PinnedFile& file) {
    return staged.contains(file.path) || is_refused(staging, file.path);
  };
  if (std::any_of(pin.files.begin(), pin.files.end(), is_there)) return true;
  diagnostics.add(
      diag::make(diag::rule::weights_missing_file,
                 fmt::format("none of the {} pinned files is in {}, which holds {} other file{}", pin.files.size(),
                             staging.located.root.string(), staging.files.size(), staging.files.size() == 1 ? "" : "s"),
                 fmt::format("name the folder with the files of {}, or fetch them", pin.model)));
  staging.files.clear();
  staging.located.found = false;
  return false;
}

Staging stage(const fs::path& dir, diag::Diagnostics& diagnostics) {
  return stage_for(dir, std::nullopt, diagnostics);
}

}  // namespace sweep::weights
