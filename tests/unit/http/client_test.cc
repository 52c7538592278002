#include "orchestrator/http/client.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <vector>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/rules/http.h"
#include "orchestrator/http/url.h"
#include "tests/support/catch.h"
#include "tests/support/environment.h"
#include "tests/support/http_server.h"

namespace sweep::http {

namespace {

using std::chrono::milliseconds;
using test::HttpRequest;
using test::HttpServer;
using test::Reply;

diag::Diagnostic failure_of(const diag::Result<Response>& result) {
  REQUIRE(!result.has_value());
  return result.error();
}

}  // namespace

TEST_CASE("get: returns status, headers and body of any status") {
  const HttpServer server([](const HttpRequest& request, Reply& reply) {
    reply.whole(404, "text/plain", "no " + request.target, "X-Two: a\r\nX-TWO: b\r\n");
  });
  const auto response = get({.url = server.url() + "/x?y=1"});
  REQUIRE(response.has_value());
  CHECK(response->head.status == 404);
  CHECK(response->body == "no /x?y=1");
  CHECK(response->head.header("x-two") == "b");
  CHECK(response->head.header("content-type") == "text/plain");
  CHECK(response->head.header("absent").empty());
}

TEST_CASE("post: sends headers and a large body without asking for permission first") {
  const HttpServer server([](const HttpRequest& request, Reply& reply) {
    reply.whole(200, "text/plain", fmt::format("{} {}", request.method, request.body.size()));
  });
  const std::string body(3 << 20, 'x');
  const auto response = post({.url = server.url(), .headers = {{"X-Key", "v"}}, .body = body});
  REQUIRE(response.has_value());
  CHECK(response->body == "POST 3145728");
  const HttpRequest seen = server.requests().at(0);
  CHECK(seen.body == body);
  CHECK(seen.headers.at("x-key") == "v");
  CHECK(seen.headers.count("expect") == 0);
}

TEST_CASE("head: has no body") {
  const HttpServer server([](const HttpRequest& request, Reply& reply) {
    reply.raw("HTTP/1.1 200 OK\r\nContent-Length: 12\r\nX-Method: " + request.method + "\r\n\r\n");
  });
  const auto response = head({.url = server.url()});
  REQUIRE(response.has_value());
  CHECK(response->body.empty());
  CHECK(response->head.header("x-method") == "HEAD");
}

TEST_CASE("get: joins a chunked body split at every byte") {
  const HttpServer server([](const HttpRequest&, Reply& reply) {
    reply.head(200, "text/plain");
    for (const char c : std::string_view("h\xC3\xA9llo")) reply.piece({&c, 1});
    reply.end();
  });
  const auto response = get({.url = server.url()});
  REQUIRE(response.has_value());
  CHECK(response->body == "h\xC3\xA9llo");
}

TEST_CASE("get: a URL that is none, or has another scheme, is refused before anything is sent") {
  for (const char* url : {"", "not a url", "ftp://host/x", "file:///etc/passwd", "http://"}) {
    CAPTURE(url);
    CHECK(failure_of(get({.url = url})).rule == diag::rule::http_bad_url);
  }
}

TEST_CASE("get: a header with a line break is refused") {
  CHECK(failure_of(get({.url = "http://127.0.0.1:9", .headers = {{"X", "a\r\nY: b"}}})).rule ==
        diag::rule::http_bad_url);
}

TEST_CASE("get: a closed port is connect-failed") {
  int port = 0;
  {
    const HttpServer server([](const HttpRequest&, Reply&) {});
    port = server.port();
  }
  const auto failure = failure_of(get({.url = fmt::format("http://127.0.0.1:{}/v1", port)}));
  CHECK(failure.rule == diag::rule::http_connect_failed);
  CHECK(contains(failure.message, fmt::format("127.0.0.1:{}", port)));
}

TEST_CASE("get: a reply cut by close or by reset is http/cut") {
  for (const bool reset : {false, true}) {
    CAPTURE(reset);
    const HttpServer server([&](const HttpRequest&, Reply& reply) {
      reply.raw("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
      if (reset) reply.reset();
    });
    CHECK(failure_of(get({.url = server.url()})).rule == diag::rule::http_cut);
  }
}

TEST_CASE("get: a connection closed without a reply is http/cut and is not repeated") {
  const HttpServer server([](const HttpRequest&, Reply&) {});
  CHECK(failure_of(get({.url = server.url()})).rule == diag::rule::http_cut);
  CHECK(server.requests().size() == 1);
}

TEST_CASE("get: something that is not HTTP is http/protocol") {
  const HttpServer server([](const HttpRequest&, Reply& reply) { reply.raw("SSH-2.0-OpenSSH_9.2\r\n"); });
  CHECK(failure_of(get({.url = server.url()})).rule == diag::rule::http_protocol);
}

TEST_CASE("get: each timeout has its own diagnostic") {
  const HttpServer silent([](const HttpRequest&, Reply& reply) { reply.hang(); });
  CHECK(failure_of(get({.url = silent.url(), .timeouts = {.first_byte = milliseconds(50)}})).rule ==
        diag::rule::http_first_byte_timeout);

  const HttpServer head_only([](const HttpRequest&, Reply& reply) {
    reply.head(200, "text/plain");
    reply.hang();
  });
  CHECK(failure_of(get({.url = head_only.url(), .timeouts = {.first_byte = milliseconds(50)}})).rule ==
        diag::rule::http_first_byte_timeout);

  const HttpServer stalling([](const HttpRequest&, Reply& reply) {
    reply.head(200, "text/plain");
    reply.piece("begin");
    reply.hang();
  });
  CHECK(failure_of(get({.url = stalling.url(), .timeouts = {.idle = milliseconds(50)}})).rule ==
        diag::rule::http_idle_timeout);

  const HttpServer endless([](const HttpRequest&, Reply& reply) {
    reply.head(200, "text/plain");
    while (reply.wait(milliseconds(1)) && !reply.peer_gone()) reply.piece("x");
  });
  CHECK(failure_of(get({.url = endless.url(), .timeouts = {.total = milliseconds(100)}})).rule ==
        diag::rule::http_total_timeout);
}

TEST_CASE("get: a host that neither accepts nor refuses is connect-timeout") {
  // A full queue of connections that nobody accepts: further ones are left without an answer.
  const base::FileDescriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(::bind(listener.get(), generic, size) == 0);
  REQUIRE(::listen(listener.get(), 0) == 0);
  REQUIRE(::getsockname(listener.get(), generic, &size) == 0);
  std::vector<base::FileDescriptor> waiting;
  for (int i = 0; i < 4; ++i) {
    waiting.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    ::connect(waiting.back().get(), generic, size);
  }
  const auto failure = failure_of(get({.url = fmt::format("http://127.0.0.1:{}", ntohs(address.sin_port)),
                                       .timeouts = {.connect = milliseconds(100)}}));
  CHECK(failure.rule == diag::rule::http_connect_timeout);
  CHECK(contains(failure.message, "100 ms"));
}

TEST_CASE("get: no room for another file is http/no-resources") {
  // What is loaded or looked up once needs files of its own: libcurl, and the type checks of UBSan.
  REQUIRE(!get({.url = "http://127.0.0.1:9"}).has_value());
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const auto result = get({.url = "http://127.0.0.1:9"});
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(failure_of(result).rule == diag::rule::http_no_resources);
}

TEST_CASE("get: a reply larger than the limit is given up on") {
  const HttpServer server(
      [](const HttpRequest&, Reply& reply) { reply.whole(200, "text/plain", std::string(1001, 'x')); });
  CHECK(get({.url = server.url(), .max_bytes = 1001}).has_value());
  CHECK(failure_of(get({.url = server.url(), .max_bytes = 1000})).rule == diag::rule::http_too_large);
}

TEST_CASE("get: endless headers are given up on") {
  const HttpServer server([](const HttpRequest&, Reply& reply) {
    reply.raw("HTTP/1.1 200 OK\r\n");
    for (int i = 0; i < 2000; ++i) reply.raw(fmt::format("X-{}: y\r\n", i));
    reply.raw("\r\n");
  });
  CHECK(failure_of(get({.url = server.url()})).rule == diag::rule::http_too_large);
}

TEST_CASE("get: a proxy of the environment is not asked for loopback addresses") {
  const test::EnvironmentVariable proxy("http_proxy", "http://127.0.0.1:9");
  const HttpServer server([](const HttpRequest&, Reply& reply) { reply.whole(200, "text/plain", "direct"); });
  const auto response = get({.url = server.url()});
  REQUIRE(response.has_value());
  CHECK(response->body == "direct");
}

TEST_CASE("get: a stop request ends a waiting request as cancelled") {
  std::stop_source stop;
  const HttpServer server([&](const HttpRequest&, Reply& reply) {
    stop.request_stop();
    reply.hang();
  });
  CHECK(failure_of(get({.url = server.url()}, stop.get_token())).rule == diag::rule::http_cancelled);
  CHECK(failure_of(get({.url = server.url()}, stop.get_token())).rule == diag::rule::http_cancelled);
  CHECK(server.requests().size() == 1);
}

TEST_CASE("get: a CA file that is not there is http/tls") {
  const HttpServer server([](const HttpRequest&, Reply&) {});
  CHECK(
      failure_of(get({.url = fmt::format("https://127.0.0.1:{}", server.port()), .ca_file = "/no/such/ca.pem"})).rule ==
      diag::rule::http_tls);
}

TEST_CASE("get: messages hold no secret") {
  const auto failure = failure_of(
      get({.url = "http://user:hunter2@127.0.0.1:9/x?key=hunter2", .headers = {{"Authorization", "Bearer hunter2"}}}));
  CHECK(!contains(failure.message + failure.help, "hunter2"));
}

}  // namespace sweep::http
