#include "orchestrator/engine/embedded/http_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>

#include "orchestrator/base/clock.h"
#include "orchestrator/diag/rules/embedded.h"

namespace sweep::engine::embedded {

namespace {

constexpr int kIdleTimeoutMs = 120'000;    // between requests
constexpr int kRequestTimeoutMs = 30'000;  // between two pieces of one request
constexpr int kSendTimeoutMs = 30'000;
constexpr int kLingerMs = 1'000;
constexpr int kBacklog = 1024;

constexpr short kGone = POLLRDHUP | POLLHUP | POLLERR | POLLNVAL;

int poll_again(pollfd* descriptors, nfds_t count, int timeout_ms) {
  while (true) {
    const int ready = ::poll(descriptors, count, timeout_ms);
    if (ready >= 0 || errno != EINTR) return ready;
  }
}

base::Unexpected<diag::Diagnostic> listen_problem(int port, const char* call) {
  return diag::fail(diag::rule::embedded_listen,
                    fmt::format("cannot {} on 127.0.0.1:{}: {}", call, port, std::generic_category().message(errno)));
}

}  // namespace

std::string error_body(std::string_view message, std::string_view type, std::string_view param, std::string_view code) {
  const auto text_or_null = [](std::string_view text) {
    return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
  };
  nlohmann::ordered_json json;
  json["error"] = {{"message", message}, {"type", type}, {"param", text_or_null(param)}, {"code", text_or_null(code)}};
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Wake Connection::wait_for(int descriptor) const {
  pollfd descriptors[] = {{stop_, POLLIN, 0}, {descriptor, POLLIN, 0}, {socket_.get(), POLLRDHUP, 0}};
  poll_again(descriptors, 3, -1);
  if (descriptors[0].revents != 0) return Wake::kStopping;
  if ((descriptors[2].revents & kGone) != 0) return Wake::kPeerGone;
  return Wake::kReady;
}

Wake Connection::wait_for_input(int timeout_ms) const {
  pollfd descriptors[] = {{stop_, POLLIN, 0}, {socket_.get(), POLLIN, 0}};
  if (poll_again(descriptors, 2, timeout_ms) == 0) return Wake::kTimeout;
  return descriptors[0].revents != 0 ? Wake::kStopping : Wake::kReady;
}

size_t Connection::receive(char* to, size_t most) const {
  while (true) {
    const ssize_t got = ::recv(socket_.get(), to, most, 0);
    if (got < 0 && errno == EINTR) continue;
    return got < 0 ? 0 : static_cast<size_t>(got);
  }
}

bool Connection::send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
      continue;
    }
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK) return false;
    pollfd descriptors[] = {{stop_, POLLIN, 0}, {socket_.get(), POLLOUT, 0}};
    if (poll_again(descriptors, 2, kSendTimeoutMs) <= 0 || descriptors[0].revents != 0) return false;
  }
  return true;
}

void Connection::close_gently() const {
  ::shutdown(socket_.get(), SHUT_WR);
  const int64_t deadline_ns = base::monotonic_ns() + int64_t{kLingerMs} * 1'000'000;
  char buffer[16 * 1024];
  while (true) {
    const int64_t left_ms = (deadline_ns - base::monotonic_ns()) / 1'000'000;
    if (left_ms <= 0 || wait_for_input(static_cast<int>(left_ms)) != Wake::kReady) return;
    if (receive(buffer, sizeof buffer) == 0) return;
  }
}

void ResponseWriter::response(int status, std::string_view content_type, std::string_view body,
                              std::string_view further_headers) {
  const std::string text = fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: {}\r\n{}\r\n{}", status,
      http_reason(status), content_type, body.size(), keep_alive_ ? "keep-alive" : "close", further_headers, body);
  if (!connection_.send(text)) keep_alive_ = false;
}

bool ResponseWriter::begin_stream(std::string_view content_type) {
  return connection_.send(
      fmt::format("HTTP/1.1 200 OK\r\nContent-Type: {}\r\nCache-Control: no-store\r\nTransfer-Encoding: chunked\r\n"
                  "Connection: {}\r\n\r\n",
                  content_type, keep_alive_ ? "keep-alive" : "close"));
}

bool ResponseWriter::send_piece(std::string_view text) {
  return text.empty() || connection_.send(fmt::format("{:x}\r\n{}\r\n", text.size(), text));
}

bool ResponseWriter::end_stream() {
  return connection_.send("0\r\n\r\n");
}

diag::Result<std::unique_ptr<HttpServer>> HttpServer::start(const Options& options, Answer answer) {
  std::unique_ptr<HttpServer> server(new HttpServer(options, std::move(answer)));
  server->listener_ = base::FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  server->stop_ = base::FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!server->listener_.is_open() || !server->stop_.is_open()) return listen_problem(options.port, "open a socket");
  const int listener = server->listener_.get();
  const int on = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(options.port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener, generic, size) != 0) return listen_problem(options.port, "bind");
  if (::listen(listener, kBacklog) != 0) return listen_problem(options.port, "listen");
  if (::getsockname(listener, generic, &size) != 0) return listen_problem(options.port, "read the port");
  server->port_ = ntohs(address.sin_port);
  server->acceptor_ = std::jthread([raw = server.get()] { raw->accept_loop(); });
  return server;
}

HttpServer::~HttpServer() {
  if (!stop_.is_open()) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof one);
  if (acceptor_.joinable()) acceptor_.join();
}

void HttpServer::accept_loop() {
  while (true) {
    pollfd descriptors[] = {{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    poll_again(descriptors, 2, -1);
    if (descriptors[0].revents != 0) break;
    peers_.remove_if([](const Peer& peer) { return peer.done.load(); });
    accept_one();
  }
  peers_.clear();  // joins
}

void HttpServer::accept_one() {
  base::FileDescriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket.is_open()) {
    // Out of descriptors: the connection stays in the backlog; without a pause this loop would spin on it.
    pollfd stop = {stop_.get(), POLLIN, 0};
    if (errno == EMFILE || errno == ENFILE) poll_again(&stop, 1, 50);
    return;
  }
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  auto connection = std::make_shared<Connection>(std::move(socket), stop_.get());
  if (peers_.size() >= static_cast<size_t>(options_.max_connections)) {
    ResponseWriter(*connection, false)
        .response(503, "application/json", error_body("too many connections", "overloaded_error"));
    return;
  }
  Peer& peer = peers_.emplace_back();
  try {
    peer.thread = std::jthread([this, connection, &peer] {
      serve(*connection);
      peer.done.store(true);
    });
  } catch (const std::system_error&) {  // no more threads: the connection is closed
    peers_.pop_back();
  }
}

void HttpServer::serve(const Connection& connection) const {
  HttpRequestParser parser(options_.limits);
  std::string buffer(64 * 1024, '\0');
  while (true) {
    auto next = parser.next();
    if (const auto* request = std::get_if<HttpRequest>(&next)) {
      ResponseWriter writer(connection, request->keep_alive);
      answer_(*request, writer);
      if (writer.keep_alive()) continue;
      return connection.close_gently();
    }
    if (const auto* error = std::get_if<HttpError>(&next)) {
      ResponseWriter(connection, false)
          .response(error->status, "application/json", error_body(error->message, "invalid_request_error"));
      return connection.close_gently();
    }
    if (parser.take_continue() && !connection.send("HTTP/1.1 100 Continue\r\n\r\n")) return;
    const bool inside = parser.is_inside_request();
    const Wake wake = connection.wait_for_input(inside ? kRequestTimeoutMs : kIdleTimeoutMs);
    if (wake == Wake::kTimeout && inside) {
      ResponseWriter(connection, false)
          .response(408, "application/json", error_body("the request did not arrive in time", "invalid_request_error"));
    }
    if (wake != Wake::kReady) return;
    const size_t got = connection.receive(buffer.data(), buffer.size());
    if (got == 0) return;
    parser.add(std::string_view(buffer).substr(0, got));
  }
}

}  // namespace sweep::engine::embedded
