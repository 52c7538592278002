#include "orchestrator/engine/embedded/http_message.h"

#include "tests/support/catch.h"

using namespace sweep::engine::embedded;

namespace {

constexpr const char* kPost = "POST /v1/completions?x=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";

// The status of the refusal; 0 if the parser wants more, 200 if a request came out.
int status_of(const std::string& bytes) {
  HttpRequestParser parser;
  parser.add(bytes);
  const auto next = parser.next();
  if (const auto* error = std::get_if<HttpError>(&next)) return error->status;
  return std::holds_alternative<HttpRequest>(next) ? 200 : 0;
}

std::string with_headers(const std::string& headers) {
  return "GET / HTTP/1.1\r\nHost: a\r\n" + headers + "\r\n";
}

}  // namespace

TEST_CASE("http: a request arrives whole however it is split") {
  const std::string bytes = kPost;
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    HttpRequestParser parser;
    parser.add(bytes.substr(0, cut));
    auto next = parser.next();
    if (cut < bytes.size()) {
      REQUIRE(std::holds_alternative<std::monostate>(next));
      parser.add(bytes.substr(cut));
      next = parser.next();
    }
    REQUIRE(std::holds_alternative<HttpRequest>(next));
    const auto& request = std::get<HttpRequest>(next);
    CHECK(request.method == "POST");
    CHECK(request.path == "/v1/completions");
    CHECK(request.body == "body");
    CHECK(request.keep_alive);
    CHECK(!parser.is_inside_request());
  }
}

TEST_CASE("http: pipelined requests come out one after another") {
  HttpRequestParser parser;
  parser.add(std::string(kPost) + "\r\nGET /health HTTP/1.1\r\nHost: a\r\n\r\nGET /x");
  CHECK(std::get<HttpRequest>(parser.next()).body == "body");
  CHECK(std::get<HttpRequest>(parser.next()).path == "/health");
  CHECK(std::holds_alternative<std::monostate>(parser.next()));
  CHECK(parser.is_inside_request());
}

TEST_CASE("http: malformed requests are refused, not repaired") {
  CHECK(status_of("GET\r\n\r\n") == 400);
  CHECK(status_of("GET /\r\n\r\n") == 400);
  CHECK(status_of("GET / HTTP/1.1 x\r\nHost: a\r\n\r\n") == 400);
  CHECK(status_of("G@T / HTTP/1.1\r\nHost: a\r\n\r\n") == 400);
  CHECK(status_of("GET x HTTP/1.1\r\nHost: a\r\n\r\n") == 400);
  CHECK(status_of("GET / HTTP/2.0\r\nHost: a\r\n\r\n") == 505);
  CHECK(status_of("GET / FTP/1.1\r\nHost: a\r\n\r\n") == 400);
  CHECK(status_of("GET / HTTP/1.1\r\n\r\n") == 400);  // no Host
  CHECK(status_of("GET / HTTP/1.1\nHost: a\n\n") == 400);
  CHECK(status_of(with_headers("no colon\r\n")) == 400);
  CHECK(status_of(with_headers("name : value\r\n")) == 400);
  CHECK(status_of(with_headers(" folded: value\r\n")) == 400);
  CHECK(status_of(with_headers(std::string("a: b\0c\r\n", 8))) == 400);
  CHECK(status_of("\x16\x03\x01\x02\n") == 400);  // a TLS hello that happens to hold a line feed
}

TEST_CASE("http: lengths that are ambiguous, malformed or too large are refused") {
  CHECK(status_of(with_headers("Content-Length: 1\r\nContent-Length: 2\r\n")) == 400);
  CHECK(status_of(with_headers("Content-Length: 0\r\nContent-Length: 0\r\n")) == 200);
  CHECK(status_of(with_headers("Content-Length: -1\r\n")) == 400);
  CHECK(status_of(with_headers("Content-Length: +1\r\n")) == 400);
  CHECK(status_of(with_headers("Content-Length: 1x\r\n")) == 400);
  CHECK(status_of(with_headers("Content-Length:\r\n")) == 400);
  CHECK(status_of(with_headers("Content-Length: 99999999999999999999999\r\n")) == 413);
  CHECK(status_of(with_headers("Content-Length: 999999999\r\n")) == 413);
  CHECK(status_of(with_headers("Transfer-Encoding: chunked\r\n")) == 501);
  CHECK(status_of(with_headers("Transfer-Encoding: chunked\r\nContent-Length: 1\r\n")) == 400);
  CHECK(status_of("GET /" + std::string(9000, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n") == 414);
  CHECK(status_of(with_headers("a: " + std::string(40000, 'a') + "\r\n")) == 431);
  CHECK(status_of(std::string(40000, 'a')) == 431);  // without an end in sight
}

TEST_CASE("http: keep-alive follows version and Connection header") {
  const auto keeps = [](const std::string& version, const std::string& connection) {
    HttpRequestParser parser;
    parser.add("GET / HTTP/" + version + "\r\nHost: a\r\n" + connection + "\r\n");
    return std::get<HttpRequest>(parser.next()).keep_alive;
  };
  CHECK(keeps("1.1", ""));
  CHECK(!keeps("1.1", "Connection: Close\r\n"));
  CHECK(!keeps("1.1", "Connection: x, close\r\n"));
  CHECK(!keeps("1.0", ""));
  CHECK(keeps("1.0", "Connection: keep-alive\r\n"));
}

TEST_CASE("http: 100 Continue is due once, while the body is missing") {
  HttpRequestParser parser;
  parser.add("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  CHECK(!parser.take_continue());
  CHECK(std::holds_alternative<std::monostate>(parser.next()));
  CHECK(parser.take_continue());
  CHECK(!parser.take_continue());
  parser.add("ab");
  CHECK(std::get<HttpRequest>(parser.next()).body == "ab");
}
