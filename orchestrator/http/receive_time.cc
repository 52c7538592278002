#include "orchestrator/http/receive_time.h"

#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "orchestrator/base/clock.h"

namespace sweep::http {

namespace {
// A slewed clock runs wrong by 500 ppm at most; between two rounds of reading lie milliseconds.
constexpr int64_t kMostSlewNs = 1'000'000;
// More than libcurl reads at once. Nothing is copied.
constexpr size_t kPeekedBytes = 65536;
}  // namespace

void stamp_arrivals(int socket) {
  const int on = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
}

WallClockOffset WallClockOffset::now() {
  // The thread may be interrupted between two readings: the narrowest of a few pairs counts.
  constexpr int kAttempts = 5;
  constexpr int64_t kNarrowNs = 1000;
  WallClockOffset offset;
  int64_t narrowest_ns = INT64_MAX;
  for (int i = 0; i < kAttempts && narrowest_ns > kNarrowNs; ++i) {
    const int64_t before_ns = base::monotonic_ns();
    const int64_t unix_ns = base::unix_ns();
    const int64_t width_ns = base::monotonic_ns() - before_ns;
    if (width_ns >= narrowest_ns) continue;
    narrowest_ns = width_ns;
    offset.offset_ns_ = unix_ns - before_ns - width_ns / 2;
  }
  return offset;
}

bool WallClockOffset::continues(const WallClockOffset& earlier) const {
  return std::abs(offset_ns_ - earlier.offset_ns_) <= kMostSlewNs;
}

std::optional<Arrival> arrival(int socket) {
  static thread_local std::array<char, kPeekedBytes> unused;
  iovec place{.iov_base = unused.data(), .iov_len = unused.size()};
  alignas(cmsghdr) std::array<char, 256> control;
  msghdr message{};
  message.msg_iov = &place;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  // With MSG_TRUNC, TCP passes over the bytes without copying them (tcp(7)); with MSG_PEEK, it leaves them there.
  const ssize_t bytes = ::recvmsg(socket, &message, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);
  if (bytes <= 0) return std::nullopt;
  for (const cmsghdr* entry = CMSG_FIRSTHDR(&message); entry != nullptr;
       entry = CMSG_NXTHDR(&message, const_cast<cmsghdr*>(entry))) {
    if (entry->cmsg_level != SOL_SOCKET || entry->cmsg_type != SO_TIMESTAMPNS) continue;
    timespec stamp{};
    std::memcpy(&stamp, CMSG_DATA(entry), sizeof stamp);
    return Arrival{.unix_ns = stamp.tv_sec * base::kNanosecondsPerSecond + stamp.tv_nsec, .bytes = bytes};
  }
  return std::nullopt;
}

void ArrivalOfPieces::begin(int64_t arrived_ns, int64_t bytes) {
  arrived_ns_ = arrived_ns;
  unread_bytes_ = bytes;
  behind_ = 0;
}

int64_t ArrivalOfPieces::time_of(const Piece& piece) {
  if (unread_bytes_ < 0) return piece.read_ns;
  unread_bytes_ -= behind_ + static_cast<int64_t>(piece.head_bytes + piece.body_bytes);
  behind_ = static_cast<int64_t>(piece.coding_bytes);
  return unread_bytes_ >= 0 ? std::min(arrived_ns_, piece.read_ns) : piece.read_ns;
}

}  // namespace sweep::http
