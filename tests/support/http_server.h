// A real HTTP server on the loopback interface whose every reply is a script: it can delay, drip, split, reset or never
// answer. One thread per connection, one request per connection. tls.h makes it one for HTTPS.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "orchestrator/base/file.h"

namespace sweep::test {

struct HttpRequest {
  std::string method;
  std::string target;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

// How bytes travel on a connection. Results as of recv(2) and send(2).
class Wire {
 public:
  virtual ~Wire() = default;
  virtual ssize_t receive(char* data, size_t size) = 0;
  virtual ssize_t send(const char* data, size_t size) = 0;
  virtual bool has_more() const = 0;  // received already, so that the socket need not become readable
  virtual void finish() = 0;          // says goodbye before the socket is closed
};

// Makes the wire of an accepted connection; null if that fails.
using WireMaker = std::function<std::unique_ptr<Wire>(int socket)>;
WireMaker plain_wires();

// The server's side of one connection. After the peer has gone, sending does nothing.
class Reply {
 public:
  Reply(Wire& wire, int socket, int stop_fd) : wire_(wire), socket_(socket), stop_fd_(stop_fd) {}

  void raw(std::string_view bytes);
  // A reply with Content-Length.
  void whole(int status, std::string_view content_type, std::string_view body, std::string_view more_headers = {});
  // A chunked reply: head, any number of pieces, end.
  void head(int status, std::string_view content_type, std::string_view more_headers = {});
  void piece(std::string_view bytes);
  void end();

  // False if the server is being stopped.
  bool wait(std::chrono::milliseconds time);
  // Until the peer closes or the server stops.
  void hang();
  // Closes with a TCP reset.
  void reset();
  bool peer_gone() const { return peer_gone_; }
  // Bytes in both directions between the peer and another port of the loopback interface, until one of them closes.
  // `first` is sent there before.
  void connect_through(int port, std::string_view first = {});

 private:
  Wire& wire_;
  int socket_;
  int stop_fd_;
  bool peer_gone_ = false;
};

class HttpServer {
 public:
  using Script = std::function<void(const HttpRequest&, Reply&)>;

  // Listens at once: on this port of the loopback interface, which must be free, or on a free one.
  explicit HttpServer(Script script, WireMaker wires = plain_wires(), int port = 0);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer();  // breaks off what is still being answered

  int port() const { return port_; }
  std::string url() const;
  std::vector<HttpRequest> requests() const;

 private:
  struct Connection {
    std::atomic<bool> ended = false;
    std::jthread thread;
  };
  void accept_loop();
  void serve(int socket);

  Script script_;
  WireMaker wires_;
  base::FileDescriptor listener_;
  base::FileDescriptor stop_read_;
  base::FileDescriptor stop_write_;
  int port_ = 0;
  mutable std::mutex mutex_;
  std::vector<HttpRequest> requests_;  // guarded by mutex_
  std::list<Connection> connections_;  // used by the accepting thread, then by the destructor
  std::jthread acceptor_;
};

}  // namespace sweep::test
