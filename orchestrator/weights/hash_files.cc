#include "orchestrator/weights/hash_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "orchestrator/base/clock.h"
#include "orchestrator/base/file.h"
#include "orchestrator/digest/sha1.h"
#include "orchestrator/digest/sha256.h"
#include "orchestrator/weights/read_ahead.h"

namespace sweep::weights {

namespace {

// As quick as any from 64 KiB to 8 MiB on files in memory; on files that are not, 1 MiB and less are slower.
constexpr size_t kReadBytes = size_t{2} << 20;
constexpr std::chrono::milliseconds kProgressInterval{100};

struct Shared {
  ReadAhead read_ahead;
  std::atomic<size_t> next{0};
  std::atomic<uint64_t> bytes{0};
  std::atomic<uint64_t> known_bytes{0};
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<size_t> finished;  // tasks not yet reported; guarded by mutex, as is
  unsigned running = 0;
};

std::string error_text(const char* operation) {
  return fmt::format("cannot {}: {}", operation, std::generic_category().message(errno));
}

class FileHash {
 public:
  FileHash(const HashTask& task, std::vector<char>& buffer, Shared& shared, const std::stop_token& stop)
      : task_(task), buffer_(buffer), shared_(shared), stop_(stop) {}

  HashOutcome run() {
    const base::FileDescriptor fd(::open(task_.file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!fd.is_open()) return unreadable(error_text("open it"));
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) return unreadable(error_text("inspect it"));
    if (!S_ISREG(status.st_mode)) return unreadable("it is not a regular file");
    const FileStamp before = stamp_of(status);
    if (is_known(before)) return take_known();
    // After the stamp was taken and before the first byte is read: see why_stamp_proves_nothing.
    const bool settled = is_settled(before, base::unix_ns());
    const auto proves_nothing = why_stamp_proves_nothing(fd.get());
    if (!read(fd.get(), before)) return outcome_;
    finish(fd.get(), before);
    if (outcome_.state != HashState::kDone) return outcome_;
    if (proves_nothing)
      outcome_.no_stamp_reason = *proves_nothing;
    else if (!settled)
      outcome_.no_stamp_reason = "it was written less than two seconds before";
    else
      outcome_.stamp = before;
    return outcome_;
  }

 private:
  HashOutcome unreadable(std::string reason) {
    outcome_.state = HashState::kUnreadable;
    outcome_.reason = std::move(reason);
    return outcome_;
  }

  bool is_known(const FileStamp& stamp) const {
    return task_.known && task_.known->stamp == stamp && !task_.known->sha256.empty() &&
           (!task_.git_blob || !task_.known->git_blob.empty());
  }

  HashOutcome take_known() {
    outcome_.state = HashState::kDone;
    outcome_.size = task_.known->stamp.size;
    outcome_.sha256 = task_.known->sha256;
    if (task_.git_blob) outcome_.git_blob = task_.known->git_blob;
    outcome_.from_known = true;
    outcome_.stamp = task_.known->stamp;
    shared_.bytes += outcome_.size;
    shared_.known_bytes += outcome_.size;
    return outcome_;
  }

  // False if it was broken off or failed.
  bool read(int fd, const FileStamp& before) {
    ReadAhead::File file(shared_.read_ahead, fd, before.size);
    if (task_.git_blob) blob_.update(digest::git_blob_prefix(before.size));
    while (!stop_.stop_requested()) {
      const ssize_t got = file.read(buffer_.data(), buffer_.size());
      if (got == 0) return true;
      if (got < 0) {
        if (errno == EINTR) continue;
        unreadable(error_text("read it"));
        return false;
      }
      sha256_.update(buffer_.data(), static_cast<size_t>(got));
      if (task_.git_blob) blob_.update(buffer_.data(), static_cast<size_t>(got));
      outcome_.size += static_cast<uint64_t>(got);
      shared_.bytes += static_cast<uint64_t>(got);
    }
    return false;
  }

  void finish(int fd, const FileStamp& before) {
    struct stat after {};
    // By name as well: a file renamed into this place is what an engine will load.
    struct stat named {};
    if (::fstat(fd, &after) != 0 || ::lstat(task_.file.c_str(), &named) != 0) {
      unreadable(error_text("inspect it again"));
      return;
    }
    outcome_.sha256 = digest::hex(sha256_.finish());
    if (task_.git_blob) outcome_.git_blob = blob_.finish_hex();
    const bool same = before == stamp_of(after) && before == stamp_of(named) && outcome_.size == before.size;
    outcome_.state = same ? HashState::kDone : HashState::kChanged;
    if (!same) outcome_.reason = "size, inode or time stamps differ before and after";
  }

  const HashTask& task_;
  std::vector<char>& buffer_;
  Shared& shared_;
  const std::stop_token& stop_;
  digest::Sha256 sha256_;
  digest::Sha1 blob_;
  HashOutcome outcome_;
};

}  // namespace

std::vector<HashOutcome> hash_files(std::span<const HashTask> tasks, const HashOptions& options,
                                    const std::stop_token& stop) {
  std::vector<HashOutcome> outcomes(tasks.size());
  std::vector<size_t> order(tasks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return tasks[a].size > tasks[b].size; });

  HashProgress total{.total_files = tasks.size()};
  for (const HashTask& task : tasks) total.total_bytes += task.size;

  Shared shared;
  const unsigned wanted = options.threads != 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
  const auto threads = static_cast<unsigned>(std::min<size_t>(wanted, tasks.size()));
  shared.running = threads;
  const auto work = [&] {
    std::vector<char> buffer(kReadBytes);
    while (!stop.stop_requested()) {
      const size_t next = shared.next++;
      if (next >= order.size()) break;
      const size_t task = order[next];
      outcomes[task] = FileHash(tasks[task], buffer, shared, stop).run();
      const std::lock_guard lock(shared.mutex);
      shared.finished.push_back(task);
    }
    const std::lock_guard lock(shared.mutex);
    --shared.running;
    shared.changed.notify_all();
  };
  std::vector<std::jthread> workers;
  for (unsigned i = 0; i < threads; ++i) workers.emplace_back(work);

  bool running = true;
  while (running) {
    std::vector<size_t> finished;
    {
      std::unique_lock lock(shared.mutex);
      running = !shared.changed.wait_for(lock, kProgressInterval, [&] { return shared.running == 0; });
      finished.swap(shared.finished);
    }
    total.known_bytes = shared.known_bytes;
    total.bytes = shared.bytes;
    total.files += finished.size();
    if (options.finished)
      for (const size_t task : finished) options.finished(task, outcomes[task]);
    if (options.progress) options.progress(total);
  }
  return outcomes;
}

}  // namespace sweep::weights
