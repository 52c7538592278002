// A socket to the server under test: sends any bytes, well-formed or not, and reads what comes back.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/base/file.h"

namespace sweep::engine::embedded {

struct HttpResponse {
  int status = 0;
  std::string head;
  std::string body;  // chunks joined
};

class HttpClient {
 public:
  explicit HttpClient(int port);

  void send(std::string_view bytes);
  // Closes the sending side.
  void finish_sending();
  // The next response; status 0 if the connection ends or 30 s pass without a byte.
  HttpResponse read_response();
  // Whether the server closes the connection (having sent nothing more) within 30 s.
  bool is_closed_by_server();

  // One request over this connection.
  HttpResponse get(const std::string& path);
  HttpResponse post(const std::string& path, const std::string& body);

 private:
  bool read_more();
  bool read_until(std::string_view mark, size_t& end);

  base::FileDescriptor socket_;
  std::string buffer_;
};

// The payloads of "data: " lines.
std::vector<std::string> sse_events(const std::string& body);

}  // namespace sweep::engine::embedded
