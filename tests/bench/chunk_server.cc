#include "tests/bench/chunk_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "orchestrator/base/clock.h"

namespace sweep::bench {

namespace {

constexpr int64_t kNanosecondsPerSecond = 1'000'000'000;
constexpr int kBacklog = 4096;
// Before the first chunk, so that the client has dealt with the heads of the replies.
constexpr int64_t kQuietNs = 200'000'000;

[[noreturn]] void give_up(const char* what) {
  std::perror(what);
  ::_exit(3);
}

std::string in_chunked_coding(std::string_view text) {
  return fmt::format("{:x}\r\n{}\r\n", text.size(), text);
}

// An event as engines send it with continuous usage and token ids.
std::string event_of(int chunk, int chunks) {
  return in_chunked_coding(fmt::format(
      "data: "
      "{{\"id\":\"cmpl-0123456789abcdef\",\"object\":\"text_completion\",\"created\":1700000000,\"model\":\"bench\","
      "\"choices\":[{{\"index\":0,\"text\":\" token\",\"logprobs\":null,\"finish_reason\":{},\"stop_reason\":null,"
      "\"token_ids\":[{}]}}],\"usage\":{{\"prompt_tokens\":64,\"total_tokens\":{},\"completion_tokens\":{}}}}}\n\n",
      chunk + 1 == chunks ? "\"length\"" : "null", 1000 + chunk, 65 + chunk, chunk + 1));
}

class Process {
 public:
  Process(const Schedule& schedule, int listener, const std::vector<uint64_t>& seeds, int64_t* stamps)
      : schedule_(schedule), listener_(listener), stamps_(stamps) {
    for (size_t i = 0; i < seeds.size(); ++i) slot_of_seed_[seeds[i]] = i;
    for (int i = 0; i < schedule.chunks; ++i) events_.push_back(event_of(i, schedule.chunks));
  }

  [[noreturn]] void serve() {
    take_requests();
    send_chunks();
    for (const auto& [socket, slot] : streams_) {
      send(socket, in_chunked_coding("data: [DONE]\n\n") + "0\r\n\r\n");
      ::shutdown(socket, SHUT_WR);
    }
    while (true) ::pause();
  }

 private:
  static void send(int socket, std::string_view bytes) {
    // Sockets block: a client that does not read holds up everything, and shows as a rate that is not reached.
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;  // the client has gone
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }

  void take_requests() {
    const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
    const auto watch = [&](int fd) {
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.fd = fd;
      if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) give_up("epoll_ctl");
    };
    watch(listener_);
    std::unordered_map<int, std::string> unread;
    while (streams_.size() < static_cast<size_t>(schedule_.streams)) {
      std::array<epoll_event, 256> events;
      const int count = ::epoll_wait(epoll, events.data(), static_cast<int>(events.size()), -1);
      for (int i = 0; i < count; ++i) {
        const int fd = events[static_cast<size_t>(i)].data.fd;
        if (fd == listener_) {
          const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
          if (socket < 0) give_up("accept");
          const int on = 1;
          ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
          watch(socket);
        } else if (!read_some(fd, unread[fd])) {
          ::epoll_ctl(epoll, EPOLL_CTL_DEL, fd, nullptr);
        }
      }
    }
    ::close(epoll);
  }

  // False once the request is complete, or the client has gone.
  bool read_some(int socket, std::string& text) {
    std::array<char, 65536> piece;
    const ssize_t got = ::recv(socket, piece.data(), piece.size(), 0);
    if (got <= 0) return false;
    text.append(piece.data(), static_cast<size_t>(got));
    const size_t head_end = text.find("\r\n\r\n");
    if (head_end == std::string::npos || text.size() < head_end + 4 + number_after(text, "Content-Length: "))
      return true;
    const auto slot = slot_of_seed_.find(number_after(text, "\"seed\":"));
    if (slot == slot_of_seed_.end()) return false;
    send(socket, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
    streams_.emplace_back(socket, slot->second);
    return false;
  }

  static uint64_t number_after(std::string_view text, std::string_view name) {
    const size_t at = text.find(name);
    uint64_t number = 0;
    if (at != std::string_view::npos)
      std::from_chars(text.data() + at + name.size(), text.data() + text.size(), number);
    return number;
  }

  void send_chunks() {
    const int64_t interval_ns = schedule_.interval_us * 1000;
    const auto count = static_cast<int64_t>(streams_.size());
    const int64_t begin_ns = base::monotonic_ns() + kQuietNs;
    for (int chunk = 0; chunk < schedule_.chunks; ++chunk) {
      for (int64_t i = 0; i < count; ++i) {
        const auto& [socket, slot] = streams_[static_cast<size_t>(i)];
        const int64_t offset_ns = schedule_.together ? 0 : i * interval_ns / count;
        wait_until(begin_ns + chunk * interval_ns + offset_ns);
        stamps_[slot * static_cast<size_t>(schedule_.chunks) + static_cast<size_t>(chunk)] = base::monotonic_ns();
        send(socket, events_[static_cast<size_t>(chunk)]);
      }
    }
  }

  static void wait_until(int64_t ns) {
    if (base::monotonic_ns() >= ns) return;
    const timespec until{.tv_sec = ns / kNanosecondsPerSecond, .tv_nsec = ns % kNanosecondsPerSecond};
    ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
  }

  Schedule schedule_;
  int listener_;
  int64_t* stamps_;
  std::unordered_map<uint64_t, size_t> slot_of_seed_;
  std::vector<std::string> events_;
  std::vector<std::pair<int, size_t>> streams_;  // socket and slot, in the order of arrival
};

}  // namespace

ChunkServer::ChunkServer(const Schedule& schedule, std::vector<uint64_t> seeds)
    : schedule_(schedule), seeds_(std::move(seeds)) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (listener < 0 || ::bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener, kBacklog) != 0 || ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    give_up("listen");
  port_ = ntohs(address.sin_port);
  stamp_bytes_ = sizeof(int64_t) * seeds_.size() * static_cast<size_t>(schedule.chunks);
  void* shared =
      ::mmap(nullptr, stamp_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (shared == MAP_FAILED) give_up("mmap");
  stamps_ = static_cast<int64_t*>(shared);
  pid_ = ::fork();
  if (pid_ < 0) give_up("fork");
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::prctl(PR_SET_TIMERSLACK, 1UL);
    ::prctl(PR_SET_NAME, "chunk-server");
    Process(schedule_, listener, seeds_, stamps_).serve();
  }
  ::close(listener);
}

ChunkServer::~ChunkServer() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  ::munmap(stamps_, stamp_bytes_);
}

std::span<const int64_t> ChunkServer::sent_ns(size_t n) const {
  const auto chunks = static_cast<size_t>(schedule_.chunks);
  return {stamps_ + n * chunks, chunks};
}

}  // namespace sweep::bench
