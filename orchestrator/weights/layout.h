// How the files of a model may lie on disk. A layout tells where the files are and where links may lead; it proves
// nothing about their content. Formats: huggingface_hub, file_download.py (cache) and _local_folder.py (local dir).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "orchestrator/diag/diagnostic.h"

namespace sweep::weights {

inline constexpr size_t kMostNamed = 5;  // paths in one message

enum class Layout : uint8_t {
  kPlain,     // the files and nothing else
  kHubCache,  // models--ORG--NAME/{blobs,refs,snapshots}: a snapshot's links lead into blobs/
  kLocalDir,  // the files, with download records in .cache/huggingface/download/
};
std::string_view layout_name(Layout layout);  // "plain", "hub-cache", "local-dir"

// The model that is looked for, as its pin names it.
struct WantedModel {
  std::string model;     // "org/name"
  std::string revision;  // names the snapshot of a hub cache
};

struct Located {
  bool found = false;  // otherwise a diagnostic says what is there instead
  Layout layout = Layout::kPlain;
  std::filesystem::path root;        // the folder that holds the files, without links in it
  std::filesystem::path links_into;  // links in `root` may only lead here
  std::filesystem::path records;     // local dir: its download records
  std::string commit;                // hub cache: the snapshot's name
};

// Recognises the layout of `dir`, which for a hub cache may be the cache itself (or the hub client's home above it),
// one model's folder or one snapshot. Without a wanted model, a hub cache must leave no choice.
Located locate(const std::filesystem::path& dir, const std::optional<WantedModel>& wanted,
               diag::Diagnostics& diagnostics);

// Whether `path` is `root` or lies in it; both without links and "..".
bool is_inside(const std::filesystem::path& path, const std::filesystem::path& root);

}  // namespace sweep::weights
