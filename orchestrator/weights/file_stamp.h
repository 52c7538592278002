// What tells a file apart from itself after a change, and when that may be relied on.
#pragma once

#include <sys/stat.h>

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

namespace sweep::weights {

struct FileStamp {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t size = 0;     // bytes
  int64_t mtime_ns = 0;  // Unix time of the last change of the content
  int64_t ctime_ns = 0;  // ... of content or metadata; no program can set it back

  friend auto operator<=>(const FileStamp&, const FileStamp&) = default;
};

FileStamp stamp_of(const struct stat& status);

// "<device> <inode> <size> <mtime_ns> <ctime_ns>"
std::string to_text(const FileStamp& stamp);

// Whether a write after `now_unix_ns` is sure to change the stamp. Time stamps tick: a write in the same tick as the
// last one leaves no trace, so the last one has to lie two seconds back (ext3 counts whole seconds). A time in the
// future says that a clock was set.
bool is_settled(const FileStamp& stamp, int64_t now_unix_ns);

// Writes through a memory mapping change the stamp only when they touch a page that the kernel holds as clean, so an
// open file is brought to that state first: dirty pages are written out. Returns why its stamp proves nothing
// afterwards, or nothing if it does. Stamps prove something on ext2 to ext4, XFS, Btrfs and F2FS; not on tmpfs
// (mappings leave no trace), nor on overlays, network and user-space file systems (times are somebody else's).
std::optional<std::string> why_stamp_proves_nothing(int fd);

}  // namespace sweep::weights
