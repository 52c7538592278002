// HTTP/1.1 requests out of a stream of bytes (RFC 9112), strictly: what is malformed is refused, not repaired.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace sweep::engine::embedded {

struct HttpRequest {
  std::string method;
  std::string path;  // without the query
  bool keep_alive = true;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;

  // The first header of this name (lower case), or null.
  const std::string* header(std::string_view name) const;
};

// A refusal that ends the connection: where the next request would begin is unknown.
struct HttpError {
  int status = 400;
  std::string message;
};

std::string_view http_reason(int status);

class HttpRequestParser {
 public:
  struct Limits {
    size_t header_bytes = size_t{32} * 1024;  // request line included
    size_t body_bytes = size_t{16} * 1024 * 1024;
  };

  HttpRequestParser() = default;
  explicit HttpRequestParser(Limits limits) : limits_(limits) {}

  void add(std::string_view bytes) { buffer_ += bytes; }

  // The next complete request, an error, or std::monostate when more bytes are needed. After an error the parser is of
  // no further use.
  std::variant<std::monostate, HttpRequest, HttpError> next();

  // True once, when the head of a request that asked for "100 Continue" is in and its body is not.
  bool take_continue();

  // Whether a request has begun.
  bool is_inside_request() const { return head_.has_value() || !buffer_.empty(); }

 private:
  std::optional<HttpError> parse_head(std::string_view head);
  std::optional<HttpError> parse_request_line(std::string_view line, HttpRequest& request);
  std::optional<HttpError> parse_body_length(const HttpRequest& request);

  Limits limits_;
  std::string buffer_;
  std::optional<HttpRequest> head_;
  size_t body_bytes_ = 0;
  int version_minor_ = 1;
  bool wants_continue_ = false;
};

}  // namespace sweep::engine::embedded
