// Hashes many files with several threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "orchestrator/weights/file_stamp.h"

namespace sweep::weights {

// What a file with this stamp was found to hold.
struct KnownDigests {
  FileStamp stamp;
  std::string sha256;
  std::string git_blob;  // empty if it was not asked for

  friend bool operator==(const KnownDigests&, const KnownDigests&) = default;
};

struct HashTask {
  std::filesystem::path file;              // a regular file; a link in its last part is not followed
  uint64_t size = 0;                       // for the order and the progress
  bool git_blob = false;                   // also the git blob id
  std::optional<KnownDigests> known = {};  // taken instead of reading the file, if its stamp is still this one
};

enum class HashState : uint8_t { kNotDone, kDone, kUnreadable, kChanged };

struct HashOutcome {
  HashState state = HashState::kNotDone;
  uint64_t size = 0;     // bytes read, or known
  std::string sha256;    // set when done
  std::string git_blob;  // set when done and asked for
  std::string reason;    // of kUnreadable and kChanged
  bool from_known = false;
  // When done: the stamp that identifies this content from now on, absent if no stamp of this file can.
  std::optional<FileStamp> stamp;
  std::string no_stamp_reason;
};

struct HashProgress {
  uint64_t bytes = 0;        // known ones too
  uint64_t known_bytes = 0;  // of files that were not read, because their content was known
  uint64_t total_bytes = 0;
  size_t files = 0;
  size_t total_files = 0;
};

struct HashOptions {
  unsigned threads = 0;  // 0: one per core
  // Called on the calling thread, about ten times a second and at the end.
  std::function<void(const HashProgress&)> progress = {};
  // Called on the calling thread for every task that has come to an end.
  std::function<void(size_t task, const HashOutcome&)> finished = {};
};

// Outcomes in the order of the tasks. The longest file is begun first, because SHA-256 of one file cannot be shared
// between threads and the last file to end decides the time. Stops early when asked; the rest stays kNotDone.
std::vector<HashOutcome> hash_files(std::span<const HashTask> tasks, const HashOptions& options,
                                    const std::stop_token& stop);

}  // namespace sweep::weights
