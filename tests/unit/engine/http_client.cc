#include "tests/unit/engine/http_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <stdexcept>

namespace sweep::engine::embedded {

HttpClient::HttpClient(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    throw std::runtime_error("cannot connect to the server under test");
  }
}

void HttpClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;  // the server may refuse and close before everything is sent
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

void HttpClient::finish_sending() {
  ::shutdown(socket_.get(), SHUT_WR);
}

bool HttpClient::read_more() {
  pollfd descriptor = {socket_.get(), POLLIN, 0};
  if (::poll(&descriptor, 1, 30'000) != 1) return false;
  char bytes[16 * 1024];
  const ssize_t got = ::recv(socket_.get(), bytes, sizeof bytes, 0);
  if (got <= 0) return false;
  buffer_.append(bytes, static_cast<size_t>(got));
  return true;
}

bool HttpClient::read_until(std::string_view mark, size_t& end) {
  while ((end = buffer_.find(mark)) == std::string::npos) {
    if (!read_more()) return false;
  }
  end += mark.size();
  return true;
}

HttpResponse HttpClient::read_response() {
  HttpResponse response;
  size_t end = 0;
  if (!read_until("\r\n\r\n", end)) return response;
  const std::string head = buffer_.substr(0, end);
  buffer_.erase(0, end);
  size_t length = 0;
  if (const size_t at = head.find("Content-Length: "); at != std::string::npos) {
    length = std::stoul(head.substr(at + 16));
    while (buffer_.size() < length) {
      if (!read_more()) return response;
    }
    response.body = buffer_.substr(0, length);
    buffer_.erase(0, length);
  } else if (head.find("Transfer-Encoding: chunked") != std::string::npos) {
    do {
      if (!read_until("\r\n", end)) return response;
      length = std::stoul(buffer_, nullptr, 16);
      while (buffer_.size() < end + length + 2) {
        if (!read_more()) return response;
      }
      response.body += buffer_.substr(end, length);
      buffer_.erase(0, end + length + 2);
    } while (length > 0);
  }
  response.head = head;
  response.status = std::stoi(head.substr(9, 3));
  return response;
}

bool HttpClient::is_closed_by_server() {
  if (!buffer_.empty()) return false;
  pollfd descriptor = {socket_.get(), POLLIN, 0};
  if (::poll(&descriptor, 1, 30'000) != 1) return false;
  char byte = 0;
  return ::recv(socket_.get(), &byte, 1, 0) <= 0;
}

HttpResponse HttpClient::get(const std::string& path) {
  send(fmt::format("GET {} HTTP/1.1\r\nHost: test\r\n\r\n", path));
  return read_response();
}

HttpResponse HttpClient::post(const std::string& path, const std::string& body) {
  send(fmt::format("POST {} HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
                   path, body.size(), body));
  return read_response();
}

std::vector<std::string> sse_events(const std::string& body) {
  std::vector<std::string> events;
  size_t at = 0;
  while (at < body.size()) {
    const size_t end = body.find("\n\n", at);
    if (end == std::string::npos || body.compare(at, 6, "data: ") != 0) {
      events.push_back("malformed: " + body.substr(at));
      break;
    }
    events.push_back(body.substr(at + 6, end - at - 6));
    at = end + 2;
  }
  return events;
}

}  // namespace sweep::engine::embedded
