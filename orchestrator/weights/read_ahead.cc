#include "orchestrator/weights/read_ahead.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace sweep::weights {

namespace {

// Measured with two files of 1 GiB on a virtual disk: steps below 4 MiB and distances below 16 MiB are slower.
constexpr uint64_t kStep = uint64_t{4} << 20;
constexpr uint64_t kDistance = uint64_t{32} << 20;

}  // namespace

ReadAhead::~ReadAhead() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

// The cold file whose reader will be the first to wait.
ReadAhead::Entry* ReadAhead::most_urgent() {
  Entry* urgent = nullptr;
  for (Entry& entry : entries_) {
    if (!entry.cold || entry.asked_to >= entry.size || entry.asked_to >= entry.needed_to + kDistance) continue;
    if (urgent == nullptr || entry.asked_to - entry.needed_to < urgent->asked_to - urgent->needed_to) urgent = &entry;
  }
  return urgent;
}

void ReadAhead::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (true) {
    Entry* entry = nullptr;
    if (!changed_.wait(lock, stop, [&] { return (entry = most_urgent()) != nullptr; })) return;
    const uint64_t from = entry->asked_to;
    entry->asked_to += kStep;
    entry->busy = true;
    lock.unlock();
    // Advice only: if it fails, the reader reads all the same and finds out why.
    ::readahead(entry->fd, static_cast<off64_t>(from), kStep);
    lock.lock();
    entry->busy = false;
    changed_.notify_all();
  }
}

ReadAhead::File::File(ReadAhead& owner, int fd, uint64_t size) : owner_(owner), fd_(fd) {
  const std::lock_guard lock(owner_.mutex_);
  entry_ = owner_.entries_.insert(owner_.entries_.end(), Entry{.fd = fd, .size = size});
}

ReadAhead::File::~File() {
  std::unique_lock lock(owner_.mutex_);
  owner_.changed_.wait(lock, [&] { return !entry_->busy; });
  owner_.entries_.erase(entry_);
}

ssize_t ReadAhead::File::read(char* to, size_t size) {
  const auto advance = [&](ssize_t got) {
    if (got > 0) at_ += static_cast<uint64_t>(got);
    return got;
  };
  if (nowait_) {
    const iovec vector{.iov_base = to, .iov_len = size};
    const ssize_t got = ::preadv2(fd_, &vector, 1, static_cast<off64_t>(at_), RWF_NOWAIT);
    if (got >= 0) return advance(got);
    // Not in memory, or a file system that cannot say: from here on read ahead.
    nowait_ = false;
  }
  const ssize_t got = advance(::pread(fd_, to, size, static_cast<off_t>(at_)));
  const std::lock_guard lock(owner_.mutex_);
  if (!owner_.thread_.joinable())
    owner_.thread_ = std::jthread([&owner = owner_](const std::stop_token& stop) { owner.run(stop); });
  entry_->cold = true;
  entry_->needed_to = at_;
  entry_->asked_to = std::max(entry_->asked_to, at_);
  owner_.changed_.notify_all();
  return got;
}

}  // namespace sweep::weights
