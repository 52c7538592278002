// Whether a server's certificate is believed, and what is said if it is not.
#include "tests/support/tls.h"

#include <fmt/format.h>

#include "orchestrator/diag/rules/http.h"
#include "orchestrator/http/authorities.h"
#include "orchestrator/http/client.h"
#include "orchestrator/http/libcurl.h"
#include "tests/support/catch.h"
#include "tests/support/environment.h"
#include "tests/support/test_dir.h"

namespace sweep::http {

namespace {

using test::EnvironmentVariable;
using test::HttpRequest;
using test::HttpServer;
using test::Reply;
using test::ServerCertificate;
using test::TestAuthority;

void say_hello(const HttpRequest&, Reply& reply) {
  reply.whole(200, "text/plain", "hello");
}

std::string https_url(const HttpServer& server) {
  return fmt::format("https://127.0.0.1:{}/x", server.port());
}

// Why a server with this certificate is not believed by somebody who knows the authority.
diag::Diagnostic refusal_of(const ServerCertificate& certificate) {
  const TestAuthority authority;
  const test::TestDir dir;
  const HttpServer server(say_hello, authority.wires(certificate));
  const auto response = get({.url = https_url(server), .ca_file = dir.write("ca.pem", authority.pem())});
  REQUIRE(!response.has_value());
  CHECK(response.error().rule == diag::rule::http_tls);
  CHECK(server.requests().empty());
  return response.error();
}

}  // namespace

TEST_CASE("tls: a server of a known authority is believed, whole replies and chunks arrive") {
  const TestAuthority authority;
  const test::TestDir dir;
  const HttpServer server(
      [](const HttpRequest& request, Reply& reply) {
        reply.head(200, "text/plain");
        for (int i = 0; i < 1000; ++i) reply.piece(request.body);
        reply.end();
      },
      authority.wires());
  const std::string body(1000, 'x');
  const auto response = post({.url = https_url(server), .body = body, .ca_file = dir.write("ca.pem", authority.pem())});
  REQUIRE(response.has_value());
  CHECK(response->body == std::string(1'000'000, 'x'));
}

TEST_CASE("tls: an authority that is not known") {
  const TestAuthority authority;
  const TestAuthority other;
  const test::TestDir dir;
  const HttpServer server(say_hello, authority.wires());
  for (const auto& ca_file : {std::filesystem::path(), dir.write("other.pem", other.pem())}) {
    const auto response = get({.url = https_url(server), .ca_file = ca_file});
    REQUIRE(!response.has_value());
    CHECK(response.error().rule == diag::rule::http_tls);
    CHECK(contains(response.error().message, "an authority that is not known here"));
    CHECK(contains(response.error().help, "--ca-file"));
  }
  CHECK(server.requests().empty());
}

TEST_CASE("tls: a certificate that has expired, is not valid yet, or is for another host") {
  CHECK(contains(refusal_of({.valid_from_s = -7200, .valid_until_s = -3600}).message, "has expired"));
  CHECK(contains(refusal_of({.valid_from_s = 3600}).message, "is not valid yet"));
  const auto other_host = refusal_of({.names = {"DNS:other.example"}});
  CHECK(contains(other_host.message, "is for another host"));
  CHECK(contains(other_host.message, "127.0.0.1"));
}

TEST_CASE("tls: a CA file that cannot be read, or holds no certificate, says so before anything is sent") {
  const TestAuthority authority;
  const test::TestDir dir;
  const HttpServer server(say_hello, authority.wires());
  const auto absent = get({.url = https_url(server), .ca_file = dir / "absent.pem"});
  REQUIRE(!absent.has_value());
  CHECK(absent.error().rule == diag::rule::http_tls);
  CHECK(contains(absent.error().message, "absent.pem: No such file"));
  const auto empty = get({.url = https_url(server), .ca_file = dir.write("key.pem", "-----BEGIN PRIVATE KEY-----\n")});
  REQUIRE(!empty.has_value());
  CHECK(contains(empty.error().message, "key.pem\" holds no certificate"));
}

TEST_CASE("tls: authorities of the environment are known, and a CA file comes on top of them") {
  const TestAuthority first;
  const TestAuthority second;
  const test::TestDir dir;
  const HttpServer of_first(say_hello, first.wires());
  const HttpServer of_second(say_hello, second.wires());
  const std::string first_pem = dir.write("first.pem", first.pem()).string();
  const auto second_pem = dir.write("second.pem", second.pem());
  const EnvironmentVariable no_bundle("CURL_CA_BUNDLE", std::nullopt);
  for (const char* name : {"SSL_CERT_FILE", "CURL_CA_BUNDLE"}) {
    CAPTURE(name);
    const EnvironmentVariable variable(name, first_pem);
    CHECK(get({.url = https_url(of_first)}).has_value());
    CHECK(!get({.url = https_url(of_second)}).has_value());
    CHECK(get({.url = https_url(of_first), .ca_file = second_pem}).has_value());
    CHECK(get({.url = https_url(of_second), .ca_file = second_pem}).has_value());
  }
  CHECK(!get({.url = https_url(of_first)}).has_value());
}

TEST_CASE("tls: the system's many certificates are not read for every connection where they lie by their hashes") {
  const TestAuthority authority;
  const test::TestDir dir;
  const auto ca = dir.write("ca.pem", authority.pem());
  const EnvironmentVariable no_bundle("CURL_CA_BUNDLE", std::nullopt);
  const EnvironmentVariable no_file("SSL_CERT_FILE", std::nullopt);
  const EnvironmentVariable no_folder("SSL_CERT_DIR", std::nullopt);
  REQUIRE(load_libcurl().has_value());
  const Authorities alone = authorities({}).value();
  if (!alone.only_folder) SWEEP_SKIP("libcurl has no folder of authorities here");
  CHECK(alone.folder);
  CHECK_FALSE(alone.file);
  CHECK(authorities(ca).value().pem == authority.pem());
  // Named in the environment, the same file is the same authorities; another one is read.
  const curl_version_info_data* version = libcurl().version_info(CURLVERSION_NOW);
  if (version->cainfo != nullptr) {
    const EnvironmentVariable system_file("SSL_CERT_FILE", std::string(version->cainfo));
    CHECK(authorities({}).value().only_folder);
  }
  const EnvironmentVariable own_file("SSL_CERT_FILE", ca.string());
  CHECK_FALSE(authorities({}).value().only_folder);
  CHECK(authorities({}).value().file == ca.string());
}

TEST_CASE("tls: a server that speaks plain HTTP is http/tls") {
  // The handshake is no request that the server could wait for.
  const HttpServer rude([](const HttpRequest&, Reply&) {},
                        [](int socket) -> std::unique_ptr<test::Wire> {
                          auto wire = test::plain_wires()(socket);
                          wire->send("HTTP/1.1 400 Bad\r\n\r\n", 20);
                          return nullptr;
                        });
  const auto response = get({.url = https_url(rude)});
  REQUIRE(!response.has_value());
  CHECK(response.error().rule == diag::rule::http_tls);
}

TEST_CASE("tls: a reply that is cut is http/cut") {
  const TestAuthority authority;
  const test::TestDir dir;
  for (const bool reset : {false, true}) {
    CAPTURE(reset);
    const HttpServer server(
        [&](const HttpRequest&, Reply& reply) {
          reply.raw("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
          if (reset) reply.reset();
        },
        authority.wires());
    const auto response = get({.url = https_url(server), .ca_file = dir.write("ca.pem", authority.pem())});
    REQUIRE(!response.has_value());
    CHECK(response.error().rule == diag::rule::http_cut);
  }
}

}  // namespace sweep::http
