// A small HTTP/1.1 server for the loopback address: one thread per connection, bounded in number, size and time.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/engine/embedded/http_message.h"

namespace sweep::engine::embedded {

// Why waiting on a connection ended.
enum class Wake : uint8_t { kReady, kPeerGone, kStopping, kTimeout };

// One connection's socket. All calls give up at once when the server stops.
class Connection {
 public:
  Connection(base::FileDescriptor socket, int stop_descriptor) : socket_(std::move(socket)), stop_(stop_descriptor) {}

  // Waits until `descriptor` is readable or the peer has closed its side.
  Wake wait_for(int descriptor) const;
  // Waits until the socket is readable.
  Wake wait_for_input(int timeout_ms) const;
  // Bytes received; 0 at the end of the stream or after an error.
  size_t receive(char* to, size_t most) const;
  // Sends everything; false if the peer is gone, does not read for a long time, or the server stops.
  bool send(std::string_view bytes) const;
  // Ends the sending side and swallows what the peer still sends, so that it gets to read the last response.
  void close_gently() const;

 private:
  base::FileDescriptor socket_;
  int stop_;
};

// Where a handler puts its answer: one response(), or begin_stream(), any number of send_piece() and end_stream().
class ResponseWriter {
 public:
  ResponseWriter(const Connection& connection, bool keep_alive) : connection_(connection), keep_alive_(keep_alive) {}

  void response(int status, std::string_view content_type, std::string_view body,
                std::string_view further_headers = {});
  // Each false means that the connection is lost.
  bool begin_stream(std::string_view content_type);
  bool send_piece(std::string_view text);
  bool end_stream();

  const Connection& connection() const { return connection_; }
  // Whether the connection can take another request.
  bool keep_alive() const { return keep_alive_; }
  void give_up() { keep_alive_ = false; }

 private:
  const Connection& connection_;
  bool keep_alive_;
};

class HttpServer {
 public:
  struct Options {
    int port = 0;  // 0: any free one
    int max_connections = 1024;
    HttpRequestParser::Limits limits;
  };
  // Called on the connections' threads, several at once. Must not throw.
  using Answer = std::function<void(const HttpRequest&, ResponseWriter&)>;

  // Listens on 127.0.0.1 and answers from then on.
  static diag::Result<std::unique_ptr<HttpServer>> start(const Options& options, Answer answer);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const { return port_; }

 private:
  struct Peer {
    std::jthread thread;
    std::atomic<bool> done{false};
  };

  HttpServer(const Options& options, Answer answer) : options_(options), answer_(std::move(answer)) {}
  void accept_loop();
  void accept_one();
  void serve(const Connection& connection) const;

  Options options_;
  Answer answer_;
  base::FileDescriptor listener_;
  base::FileDescriptor stop_;  // an eventfd that turns readable once and for all
  int port_ = 0;
  std::list<Peer> peers_;  // of the accepting thread
  std::jthread acceptor_;
};

// The body of an error in OpenAI's shape.
std::string error_body(std::string_view message, std::string_view type, std::string_view param = {},
                       std::string_view code = {});

}  // namespace sweep::engine::embedded
