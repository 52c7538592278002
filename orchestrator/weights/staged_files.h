// What lies in a model's folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/weights/download_records.h"
#include "orchestrator/weights/layout.h"
#include "orchestrator/weights/pin.h"

namespace sweep::weights {

struct StagedFile {
  std::string path;              // relative to the folder, with "/"
  std::filesystem::path opened;  // where its bytes are; links are resolved
  uint64_t size = 0;
  bool linked = false;  // `path` is a link
};

struct Staging {
  Located located;
  std::vector<StagedFile> files;  // by path
  // Files and folders that are there and were reported instead of listed: links that are refused, special files,
  // folders that cannot be read.
  std::unordered_set<std::string> refused;
  DownloadRecords records;  // of a hub cache: what the names of the blobs say
};

// Regular files, and links to regular files that stay inside, by path. In a hub cache, links must lead to the model's
// own blobs. Everything else is reported and left out: links that lead elsewhere or nowhere, links to folders, special
// files (which are never opened), folders that cannot be read. .cache/huggingface and .git at the top are no part of a
// model.
Staging stage(const std::filesystem::path& dir, const Pin& pin, diag::Diagnostics& diagnostics);

// Whether the listing reported the file, or a folder that it is in, as one that cannot be looked at.
bool is_refused(const Staging& staging, std::string_view path);

// Whether anything pinned is there, be it refused. If not, the folder is another one than was meant: that is reported
// once, and nothing of it remains staged.
bool keep_if_of_pin(Staging& staging, const Pin& pin, diag::Diagnostics& diagnostics);

// As stage(), without a pin; a hub cache must then leave no choice of model and snapshot.
Staging stage(const std::filesystem::path& dir, diag::Diagnostics& diagnostics);

}  // namespace sweep::weights
