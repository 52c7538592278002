// Staged model files against their pin: completeness, identity of content, and consistency of index and shards.
// Content proves; names, sizes and download records only help to say what is wrong.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

#include "orchestrator/weights/hash_files.h"
#include "orchestrator/weights/pin.h"
#include "orchestrator/weights/report.h"

namespace sweep::weights {

struct VerifyOptions {
  unsigned threads = 0;  // 0: one per core
  // Compare the client's download records only. No content is read, and the report is never verified.
  bool records_only = false;
  // What the entry asks for; a pin for something else is a finding.
  std::optional<std::string> expected_model = {};
  std::optional<std::string> expected_revision = {};
  // The cache folder (see verification_cache.h); absent: every byte is read.
  std::optional<std::filesystem::path> cache_folder = {};
  // What an interrupted verification had found already.
  std::span<const KnownDigests> known = {};
  std::function<void(const HashProgress&)> progress = {};
};

// Reports everything that is wrong; never fails as a whole. When `stop` is requested, the report covers what was
// checked until then and is not verified.
Report verify(const std::filesystem::path& dir, const Pin& pin, const VerifyOptions& options = {},
              const std::stop_token& stop = {});

}  // namespace sweep::weights
