// What was hashed before, so that an unchanged model is verified again in milliseconds.
//
// An entry says: the file with this stamp (device, inode, size, mtime_ns, ctime_ns) held these bytes. It is only made
// where every later write is sure to change the stamp (see file_stamp.h); whatever is doubtful is hashed again. What
// happens below the file system, a disk that forgets, leaves no trace in a stamp: only hashing finds that.
//
// The file is one JSON object, {"key", "files": [{"device", "inode", "size", "mtime_ns", "ctime_ns", "sha256",
// "git_blob"}], "sound_state"}, and a line with the SHA-256 of what stands before it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "orchestrator/base/file.h"
#include "orchestrator/weights/hash_files.h"

namespace sweep::weights {

class VerificationCache {
 public:
  // Of one model folder under one pin, in `folder`/verified/. Begins empty if there is none yet, or if what
  // is there is damaged, of another version, or could have been written by another user.
  VerificationCache(const std::filesystem::path& folder, const std::filesystem::path& model,
                    std::string_view pin_sha256);

  // What the file of this device and inode was found to hold. Its stamp is for the caller to compare.
  std::optional<KnownDigests> find(const FileStamp& stamp) const;

  void put(KnownDigests digests);

  // The state_of() all files for which list, headers and index gave no finding; empty if none is known.
  const std::string& sound_state() const { return sound_state_; }
  void set_sound_state(std::string state);

  // Writes what has changed, whole or not at all.
  base::Expected<base::Done, base::IoError> save();

 private:
  using Place = std::pair<uint64_t, uint64_t>;  // device, inode

  void load();

  std::filesystem::path file_;
  std::string key_;
  std::map<Place, KnownDigests> entries_;
  std::string sound_state_;
  bool changed_ = false;
};

struct NamedStamp {
  std::string path;  // relative to the model's folder
  FileStamp stamp;
};

// One value for names and stamps of all files of a model, in the order of `files`.
std::string state_of(std::span<const NamedStamp> files);

}  // namespace sweep::weights
