// A pin: which files a model consists of at one revision, and what identifies their content.
//   {"complete": true, "files": [{"git_blob": null, "path": "config.json", "sha256": "..", "size": 12}, ..],
//    "generator": null, "index": {"tensor_count": 4, "total_size": 344}, "model": "org/name",
//    "revision": "<40 hex>", "schema_version": 1}
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/diag/source_map.h"

namespace sweep::weights {

inline constexpr int kPinVersion = 1;
inline constexpr std::string_view kIndexName = "model.safetensors.index.json";

struct PinnedFile {
  std::string path;  // relative to the model's folder, with "/"
  std::optional<uint64_t> size;
  std::optional<std::string> sha256;    // 64 lower-case hex digits
  std::optional<std::string> git_blob;  // 40 lower-case hex digits

  friend bool operator==(const PinnedFile&, const PinnedFile&) = default;
};

// What the index of the shards says about the whole.
struct IndexTotals {
  uint64_t total_size = 0;  // bytes of all tensors, without headers
  uint64_t tensor_count = 0;

  friend bool operator==(const IndexTotals&, const IndexTotals&) = default;
};

struct Pin {
  std::string model;
  std::string revision;  // 40 lower-case hex digits
  bool complete = false;
  std::vector<PinnedFile> files;  // by path
  std::optional<IndexTotals> index;
  std::optional<std::string> generator;  // how a model that comes from no hub was made

  friend bool operator==(const Pin&, const Pin&) = default;
};

// Reads a pin by the description in schema/, the short form (a lock file) included: {"files": {PATH: {"sha256": ".."}},
// "repo": "org/name", "revision": ".."}. Everything that is wrong is reported, with line and column; nothing is
// returned if there was an error. `name` is what diagnostics call the file; YAML, if it ends so.
std::optional<Pin> parse_pin(std::string_view text, const std::string& name, diag::Diagnostics& diagnostics);
// `sources`, if not null, gets the text, so that diagnostics can show the line.
std::optional<Pin> read_pin(const std::filesystem::path& path, diag::Diagnostics& diagnostics,
                            diag::SourceMap* sources = nullptr);

// The same pin gives the same bytes: files by path, keys in alphabetical order.
std::string to_text(const Pin& pin);
std::string pin_digest(const Pin& pin);  // SHA-256 of the text: 64 hex digits
diag::Result<diag::Done> write_pin(const std::filesystem::path& path, const Pin& pin);

// The revision of a model that comes from no hub: the first 40 hex digits of the SHA-256 over the lines
// "<path> <sha256>\n" of all files, ordered by path. Files without a SHA-256 contribute an empty one.
std::string content_revision(std::span<const PinnedFile> files);

}  // namespace sweep::weights
