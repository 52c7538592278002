#include "orchestrator/weights/file_stamp.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "orchestrator/base/clock.h"

namespace sweep::weights {

namespace {

constexpr int64_t kCoarsestTick = 2 * base::kNanosecondsPerSecond;

// statfs(2), f_type.
struct FileSystem {
  uint32_t magic;
  std::string_view name;
  bool trusted;
};
constexpr auto kFileSystems = std::to_array<FileSystem>({{0xef53, "ext4", true},
                                                         {0x58465342, "xfs", true},
                                                         {0x9123683e, "btrfs", true},
                                                         {0xf2f52010, "f2fs", true},
                                                         {0x01021994, "tmpfs", false},
                                                         {0x794c7630, "overlayfs", false},
                                                         {0x6969, "nfs", false},
                                                         {0x0bd00bd0, "lustre", false},
                                                         {0x65735546, "fuse", false},
                                                         {0x2fc12fc1, "zfs", false},
                                                         {0x00c36400, "ceph", false},
                                                         {0xff534d42, "cifs", false},
                                                         {0x47504653, "gpfs", false}});

int64_t nanoseconds(const timespec& time) {
  return static_cast<int64_t>(time.tv_sec) * base::kNanosecondsPerSecond + time.tv_nsec;
}

}  // namespace

FileStamp stamp_of(const struct stat& status) {
  return {.device = status.st_dev,
          .inode = status.st_ino,
          .size = static_cast<uint64_t>(status.st_size),
          .mtime_ns = nanoseconds(status.st_mtim),
          .ctime_ns = nanoseconds(status.st_ctim)};
}

std::string to_text(const FileStamp& stamp) {
  return fmt::format("{} {} {} {} {}", stamp.device, stamp.inode, stamp.size, stamp.mtime_ns, stamp.ctime_ns);
}

bool is_settled(const FileStamp& stamp, int64_t now_unix_ns) {
  return std::max(stamp.mtime_ns, stamp.ctime_ns) <= now_unix_ns - kCoarsestTick;
}

std::optional<std::string> why_stamp_proves_nothing(int fd) {
  struct statfs system {};
  if (::fstatfs(fd, &system) != 0) return "its file system cannot be asked";
  const auto magic = static_cast<uint32_t>(system.f_type);
  const auto known = std::find_if(kFileSystems.begin(), kFileSystems.end(),
                                  [&](const FileSystem& candidate) { return candidate.magic == magic; });
  if (known == kFileSystems.end()) return fmt::format("it lies on a file system of type {:#x}", magic);
  if (!known->trusted) return fmt::format("it lies on {}", known->name);
  if (::sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER) !=
      0)
    return "its changes could not be written out";
  return std::nullopt;
}

}  // namespace sweep::weights
