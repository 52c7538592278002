// A pin of what lies in a folder.
#pragma once

#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/weights/hash_files.h"
#include "orchestrator/weights/pin.h"

namespace sweep::weights {

struct PinSource {
  std::string model;
  std::optional<std::string> revision;  // absent: the snapshot's in a hub cache, else content_revision of what is found
  std::optional<std::string> generator;
};

// Hashes every file of a folder, in any layout that `verify` knows. There is a pin only if headers and index are in
// order as well: what a client would fail to load, or loads by half, is not worth pinning. Everything that is wrong is
// reported.
std::optional<Pin> pin_from_dir(const std::filesystem::path& dir, const PinSource& source, const HashOptions& options,
                                diag::Diagnostics& diagnostics, const std::stop_token& stop = {});

}  // namespace sweep::weights
