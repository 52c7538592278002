// A real HTTP server on the loopback interface whose every reply is a script: it can delay, drip, split, reset or never
// answer. One thread per connection, one request per connection.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
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

// The server's side of one connection. After the peer has gone, sending does nothing.
class Reply {
 public:
  Reply(int socket, int stop_fd) : socket_(socket), stop_fd_(stop_fd) {}

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

 private:
  int socket_;
  int stop_fd_;
  bool peer_gone_ = false;
};

class HttpServer {
 public:
  using Script = std::function<void(const HttpRequest&, Reply&)>;

  // Listens at once on a free port.
  explicit HttpServer(Script script);
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
