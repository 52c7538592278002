#include "tests/support/http_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <utility>

#include "orchestrator/base/check.h"

namespace sweep::test {

namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

class PlainWire final : public Wire {
 public:
  explicit PlainWire(int socket) : socket_(socket) {}
  ssize_t receive(char* data, size_t size) override { return ::recv(socket_, data, size, 0); }
  ssize_t send(const char* data, size_t size) override { return ::send(socket_, data, size, MSG_NOSIGNAL); }
  bool has_more() const override { return false; }
  void finish() override {}

 private:
  int socket_;
};

struct Ends {
  Wire& wire;
  int socket;
  int stop_fd;
};

// False if the peer closed or the server is stopping.
bool read_more(const Ends& ends, std::string& buffer) {
  std::array<pollfd, 2> watched{
      {{.fd = ends.socket, .events = POLLIN, .revents = 0}, {.fd = ends.stop_fd, .events = POLLIN, .revents = 0}}};
  if (!ends.wire.has_more() && (::poll(watched.data(), watched.size(), -1) < 0 || watched[1].revents != 0))
    return false;
  std::array<char, 65536> piece;
  const ssize_t got = ends.wire.receive(piece.data(), piece.size());
  if (got <= 0) return false;
  buffer.append(piece.data(), static_cast<size_t>(got));
  return true;
}

std::optional<HttpRequest> read_request(const Ends& ends) {
  std::string buffer;
  size_t head_end;
  while ((head_end = buffer.find("\r\n\r\n")) == std::string::npos)
    if (!read_more(ends, buffer)) return std::nullopt;
  HttpRequest request;
  std::string_view head = std::string_view(buffer).substr(0, head_end);
  const std::string_view first = head.substr(0, head.find("\r\n"));
  const size_t space = first.find(' ');
  const size_t last_space = first.rfind(' ');
  if (space == std::string_view::npos || last_space <= space) return std::nullopt;
  request.method = first.substr(0, space);
  request.target = first.substr(space + 1, last_space - space - 1);
  size_t at = head.find("\r\n");
  while (at != std::string_view::npos) {
    const size_t next = head.find("\r\n", at + 2);
    const std::string_view line = head.substr(at + 2, next == std::string_view::npos ? next : next - at - 2);
    const size_t colon = line.find(':');
    if (colon != std::string_view::npos) {
      std::string_view value = line.substr(colon + 1);
      if (value.starts_with(' ')) value.remove_prefix(1);
      request.headers[lower(line.substr(0, colon))] = value;
    }
    at = next;
  }
  size_t length = 0;
  const std::string& text = request.headers["content-length"];
  std::from_chars(text.data(), text.data() + text.size(), length);
  while (buffer.size() < head_end + 4 + length)
    if (!read_more(ends, buffer)) return std::nullopt;
  request.body = buffer.substr(head_end + 4, length);
  return request;
}

std::string head_text(int status, std::string_view content_type, std::string_view more_headers) {
  return fmt::format("HTTP/1.1 {} Scripted\r\nContent-Type: {}\r\nConnection: close\r\n{}", status, content_type,
                     more_headers);
}

}  // namespace

void Reply::raw(std::string_view bytes) {
  while (!bytes.empty() && !peer_gone_) {
    const ssize_t sent = wire_.send(bytes.data(), bytes.size());
    if (sent <= 0)
      peer_gone_ = true;
    else
      bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

void Reply::whole(int status, std::string_view content_type, std::string_view body, std::string_view more_headers) {
  raw(fmt::format("{}Content-Length: {}\r\n\r\n{}", head_text(status, content_type, more_headers), body.size(), body));
}

void Reply::head(int status, std::string_view content_type, std::string_view more_headers) {
  raw(head_text(status, content_type, more_headers) + "Transfer-Encoding: chunked\r\n\r\n");
}

void Reply::piece(std::string_view bytes) {
  if (!bytes.empty()) raw(fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes));
}

void Reply::end() {
  raw("0\r\n\r\n");
}

bool Reply::wait(std::chrono::milliseconds time) {
  pollfd stop{.fd = stop_fd_, .events = POLLIN, .revents = 0};
  return ::poll(&stop, 1, static_cast<int>(time.count())) == 0;
}

void Reply::hang() {
  std::array<pollfd, 2> watched{
      {{.fd = socket_, .events = POLLRDHUP, .revents = 0}, {.fd = stop_fd_, .events = POLLIN, .revents = 0}}};
  ::poll(watched.data(), watched.size(), -1);
}

void Reply::reset() {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  peer_gone_ = true;
}

void Reply::connect_through(int port, std::string_view first) {
  const base::FileDescriptor other(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (::connect(other.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return;
  if (::send(other.get(), first.data(), first.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(first.size())) return;
  std::array<char, 65536> piece;
  while (true) {
    std::array<pollfd, 3> watched{{{.fd = socket_, .events = POLLIN, .revents = 0},
                                   {.fd = other.get(), .events = POLLIN, .revents = 0},
                                   {.fd = stop_fd_, .events = POLLIN, .revents = 0}}};
    if (::poll(watched.data(), watched.size(), -1) < 0 || watched[2].revents != 0) return;
    const bool from_peer = watched[0].revents != 0;
    const ssize_t got =
        from_peer ? wire_.receive(piece.data(), piece.size()) : ::recv(other.get(), piece.data(), piece.size(), 0);
    if (got <= 0) return;
    const std::string_view bytes(piece.data(), static_cast<size_t>(got));
    if (!from_peer)
      raw(bytes);
    else if (::send(other.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) != got)
      return;
  }
}

WireMaker plain_wires() {
  return [](int socket) { return std::make_unique<PlainWire>(socket); };
}

HttpServer::HttpServer(Script script, WireMaker wires, int port)
    : script_(std::move(script)), wires_(std::move(wires)) {
  listener_ = base::FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  SWEEPCTL_CHECK(listener_.is_open());
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  const int yes = 1;  // connections of a former server that linger do not stand in the way
  ::setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  constexpr int kBacklog = 4096;
  SWEEPCTL_CHECK(::bind(listener_.get(), generic, size) == 0 && ::listen(listener_.get(), kBacklog) == 0);
  SWEEPCTL_CHECK(::getsockname(listener_.get(), generic, &size) == 0);
  port_ = ntohs(address.sin_port);
  std::array<int, 2> ends{};
  SWEEPCTL_CHECK(::pipe2(ends.data(), O_CLOEXEC) == 0);
  stop_read_ = base::FileDescriptor(ends[0]);
  stop_write_ = base::FileDescriptor(ends[1]);
  acceptor_ = std::jthread([this] { accept_loop(); });
}

HttpServer::~HttpServer() {
  stop_write_.reset();  // the reading end becomes readable for every thread that waits
  acceptor_.join();
  connections_.clear();
}

std::string HttpServer::url() const {
  return fmt::format("http://127.0.0.1:{}", port_);
}

std::vector<HttpRequest> HttpServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void HttpServer::accept_loop() {
  while (true) {
    std::array<pollfd, 2> watched{{{.fd = listener_.get(), .events = POLLIN, .revents = 0},
                                   {.fd = stop_read_.get(), .events = POLLIN, .revents = 0}}};
    if (::poll(watched.data(), watched.size(), -1) < 0 || watched[1].revents != 0) return;
    const int socket = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) continue;
    connections_.remove_if([](const Connection& connection) { return connection.ended.load(); });
    Connection& connection = connections_.emplace_back();
    connection.thread = std::jthread([this, socket, &connection] {
      serve(socket);
      connection.ended = true;
    });
  }
}

void HttpServer::serve(int socket) {
  const base::FileDescriptor owner(socket);
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const auto wire = wires_(socket);
  if (!wire) return;
  const auto request = read_request({.wire = *wire, .socket = socket, .stop_fd = stop_read_.get()});
  if (!request) return;
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(*request);
  }
  Reply reply(*wire, socket, stop_read_.get());
  script_(*request, reply);
  if (!reply.peer_gone()) wire->finish();
}

}  // namespace sweep::test
