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
#include <tuple>
#include <utility>
#include <vector>

#include "orchestrator/base/file.h"
#include "orchestrator/digest/sha1.h"
#include "orchestrator/digest/sha256.h"

namespace sweep::weights {

namespace {

constexpr size_t kReadBytes = 256 * 1024;  // the fastest size for read + SHA-256, measured 64 KiB to 8 MiB
constexpr std::chrono::milliseconds kProgressInterval{100};

struct Shared {
  std::atomic<size_t> next{0};
  std::atomic<uint64_t> bytes{0};
  std::atomic<size_t> files{0};
  std::mutex mutex;
  std::condition_variable worker_ended;
  unsigned running = 0;  // guarded by mutex
};

std::string error_text(const char* operation) {
  return fmt::format("cannot {}: {}", operation, std::generic_category().message(errno));
}

// What changes when somebody writes to the file or puts another in its place.
auto identity(const struct stat& status) {
  return std::tuple(status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec,
                    status.st_ctim.tv_sec, status.st_ctim.tv_nsec);
}

HashOutcome hash_one(const HashTask& task, std::vector<char>& buffer, Shared& shared, const std::stop_token& stop) {
  HashOutcome outcome;
  const auto unreadable = [&](std::string reason) {
    outcome.state = HashState::kUnreadable;
    outcome.reason = std::move(reason);
    return outcome;
  };
  const base::FileDescriptor fd(::open(task.file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.is_open()) return unreadable(error_text("open it"));
  struct stat before {};
  if (::fstat(fd.get(), &before) != 0) return unreadable(error_text("inspect it"));
  if (!S_ISREG(before.st_mode)) return unreadable("it is not a regular file");
  ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL);

  digest::Sha256 sha256;
  digest::Sha1 blob;
  if (task.git_blob) blob.update(digest::git_blob_prefix(static_cast<uint64_t>(before.st_size)));
  while (!stop.stop_requested()) {
    const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
    if (got < 0) {
      if (errno == EINTR) continue;
      return unreadable(error_text("read it"));
    }
    if (got == 0) {
      struct stat after {};
      // By name as well: a file renamed into this place is what an engine will load.
      struct stat named {};
      if (::fstat(fd.get(), &after) != 0 || ::lstat(task.file.c_str(), &named) != 0)
        return unreadable(error_text("inspect it again"));
      outcome.sha256 = digest::hex(sha256.finish());
      if (task.git_blob) outcome.git_blob = blob.finish_hex();
      const bool same = identity(before) == identity(after) && identity(after) == identity(named) &&
                        outcome.size == static_cast<uint64_t>(before.st_size);
      outcome.state = same ? HashState::kDone : HashState::kChanged;
      if (!same) outcome.reason = "size, inode or time stamps differ before and after";
      return outcome;
    }
    sha256.update(buffer.data(), static_cast<size_t>(got));
    if (task.git_blob) blob.update(buffer.data(), static_cast<size_t>(got));
    outcome.size += static_cast<uint64_t>(got);
    shared.bytes += static_cast<uint64_t>(got);
  }
  return outcome;
}

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
      outcomes[order[next]] = hash_one(tasks[order[next]], buffer, shared, stop);
      ++shared.files;
    }
    const std::lock_guard lock(shared.mutex);
    --shared.running;
    shared.worker_ended.notify_all();
  };
  std::vector<std::jthread> workers;
  for (unsigned i = 0; i < threads; ++i) workers.emplace_back(work);

  const auto report = [&] {
    if (!options.progress) return;
    total.bytes = shared.bytes;
    total.files = shared.files;
    options.progress(total);
  };
  {
    std::unique_lock lock(shared.mutex);
    while (!shared.worker_ended.wait_for(lock, kProgressInterval, [&] { return shared.running == 0; })) {
      lock.unlock();
      report();
      lock.lock();
    }
  }
  workers.clear();
  report();
  return outcomes;
}

}  // namespace sweep::weights
