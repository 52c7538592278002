// Requests through the proxy that the environment names.
#include <fmt/format.h>

#include "orchestrator/diag/rules/http.h"
#include "orchestrator/http/client.h"
#include "tests/support/catch.h"
#include "tests/support/environment.h"
#include "tests/support/http_server.h"
#include "tests/support/test_dir.h"
#include "tests/support/tls.h"

namespace sweep::http {

namespace {

using test::EnvironmentVariable;
using test::HttpRequest;
using test::HttpServer;
using test::Reply;

// A forward proxy: whatever host is asked for is the server on `port`.
HttpServer::Script forward_to(const int& port) {
  return [&port](const HttpRequest& request, Reply& reply) {
    if (request.method == "CONNECT") {
      reply.raw("HTTP/1.1 200 Connection established\r\nX-Proxy: yes\r\n\r\n");
      return reply.connect_through(port);
    }
    std::string text = fmt::format("{} {} HTTP/1.1\r\n", request.method, request.target);
    for (const auto& [name, value] : request.headers) text += fmt::format("{}: {}\r\n", name, value);
    reply.connect_through(port, text + "\r\n" + request.body);
  };
}

std::string with_password(const HttpServer& proxy) {
  return fmt::format("http://user:hunter2@127.0.0.1:{}", proxy.port());
}

}  // namespace

TEST_CASE("proxy: http goes through http_proxy as an absolute address") {
  const HttpServer server([](const HttpRequest&, Reply& reply) { reply.whole(200, "text/plain", "seen"); });
  const int port = server.port();
  const HttpServer proxy(forward_to(port));
  const EnvironmentVariable variable("http_proxy", with_password(proxy));
  const auto response = get({.url = "http://hub.example/a?b"});
  REQUIRE(response.has_value());
  CHECK(response->body == "seen");
  CHECK(proxy.requests().at(0).target == "http://hub.example/a?b");
  CHECK(proxy.requests().at(0).headers.at("proxy-authorization").starts_with("Basic "));
}

TEST_CASE("proxy: https goes through https_proxy in a tunnel that shows neither headers nor password to it") {
  const test::TestAuthority authority;
  const test::TestDir dir;
  const HttpServer server([](const HttpRequest&, Reply& reply) { reply.whole(200, "text/plain", "seen"); },
                          authority.wires({.names = {"DNS:hub.example"}}));
  const int port = server.port();
  const HttpServer proxy(forward_to(port));
  const EnvironmentVariable variable("https_proxy", with_password(proxy));
  const auto response = get({.url = "https://hub.example/a",
                             .credentials = {{"Authorization", "Bearer secret"}},
                             .ca_file = dir.write("ca.pem", authority.pem())});
  REQUIRE(response.has_value());
  CHECK(response->body == "seen");
  CHECK(response->head.header("x-proxy").empty());
  const HttpRequest tunnel = proxy.requests().at(0);
  CHECK(tunnel.method == "CONNECT");
  CHECK(tunnel.target == "hub.example:443");
  CHECK(tunnel.headers.count("authorization") == 0);
  const HttpRequest seen = server.requests().at(0);
  CHECK(seen.headers.at("authorization") == "Bearer secret");
  CHECK(seen.headers.count("proxy-authorization") == 0);
}

TEST_CASE("proxy: no_proxy and the loopback interface are reached without it") {
  const HttpServer server([](const HttpRequest&, Reply& reply) { reply.whole(200, "text/plain", "direct"); });
  const HttpServer proxy([](const HttpRequest&, Reply& reply) { reply.whole(502, "text/plain", ""); });
  const EnvironmentVariable variable("http_proxy", with_password(proxy));
  CHECK(get({.url = server.url()}).value().body == "direct");
  const EnvironmentVariable exception("no_proxy", "hub.invalid");
  const auto unresolved = get({.url = "http://hub.invalid/"});
  REQUIRE(!unresolved.has_value());
  CHECK(unresolved.error().rule == diag::rule::http_connect_failed);
  CHECK(proxy.requests().empty());
}

TEST_CASE("proxy: one that wants a password, or cannot reach the host, is http/proxy") {
  for (const int status : {407, 503}) {
    CAPTURE(status);
    const HttpServer proxy([&](const HttpRequest&, Reply& reply) { reply.whole(status, "text/plain", "no"); });
    const EnvironmentVariable variable("https_proxy", with_password(proxy));
    const auto response = get({.url = "https://hub.example/"});
    REQUIRE(!response.has_value());
    CHECK(response.error().rule == diag::rule::http_proxy);
    CHECK(contains(response.error().message, std::to_string(status)));
    CHECK(contains(response.error().help, "PASSWORD") == (status == 407));
  }
}

TEST_CASE("proxy: one that is not there is named by its variable, and its password is not shown") {
  int port = 0;
  {
    const HttpServer gone([](const HttpRequest&, Reply&) {});
    port = gone.port();
  }
  const EnvironmentVariable variable("https_proxy", fmt::format("http://user:hunter2@127.0.0.1:{}", port));
  const auto response = get({.url = "https://hub.example/"});
  REQUIRE(!response.has_value());
  CHECK(response.error().rule == diag::rule::http_connect_failed);
  CHECK(contains(response.error().help, "https_proxy"));
  CHECK(!contains(response.error().message + response.error().help, "hunter2"));
}

TEST_CASE("proxy: a value that is none is not shown either") {
  for (const char* value : {"http://user:hunter2@proxy.example:port", "foo://user:hunter2@127.0.0.1:9",
                            "http://user:hunter2@nosuch.invalid:9", "user:hunter2@", "http://user:hunter2@[::1"}) {
    CAPTURE(value);
    const EnvironmentVariable variable("https_proxy", value);
    const auto response = get({.url = "https://hub.example/"});
    REQUIRE(!response.has_value());
    CAPTURE(response.error().message);
    CHECK(response.error().rule == diag::rule::http_proxy);
    CHECK(!contains(response.error().message + response.error().help, "hunter2"));
  }
}

}  // namespace sweep::http
