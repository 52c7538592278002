// What lies in a model's folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/weights/layout.h"
#include "orchestrator/weights/pin.h"

namespace sweep::weights {

struct StagedFile {
  std::string path;              // relative to the folder, with "/"
  std::filesystem::path opened;  // where its bytes are; links are resolved
  uint64_t size = 0;
};

// Regular files, and links to regular files inside the folder, by path. Links that lead outside, dangling links and
// special files are reported and left out. Links to folders are not followed. .cache/ and .git/ at the top are skipped.
std::vector<StagedFile> list_staged(const std::filesystem::path& dir, diag::Diagnostics& diagnostics);

struct Staging {
  Layout layout = Layout::kPlain;
  std::filesystem::path root;  // the folder that holds the model's files
  std::vector<StagedFile> files;
};

// The files that lie in `dir` for a pin.
Staging stage(const std::filesystem::path& dir, const Pin& pin, diag::Diagnostics& diagnostics);

}  // namespace sweep::weights
