#include "orchestrator/http/redirects.h"

#include <fmt/format.h>

#include "orchestrator/diag/rules/http.h"
#include "orchestrator/http/url.h"
#include "tests/support/catch.h"
#include "tests/support/http_server.h"
#include "tests/support/test_dir.h"
#include "tests/support/tls.h"

namespace sweep::http {

namespace {

using test::HttpRequest;
using test::HttpServer;
using test::Reply;

void lead_to(Reply& reply, const std::string& target, int status = 302) {
  reply.whole(status, "text/plain", "moved", fmt::format("Location: {}\r\n", target));
}

// Leads from each path to the next: "/3" to "/2" to "/1" to "/0", which answers.
void count_down(const HttpRequest& request, Reply& reply) {
  const int left = std::stoi(request.target.substr(1));
  if (left == 0) return reply.whole(200, "text/plain", request.method + " " + request.body);
  lead_to(reply, fmt::format("/{}", left - 1), 307);
}

diag::RuleId rule_of(const diag::Result<Answer>& answer) {
  REQUIRE(!answer.has_value());
  return answer.error().rule;
}

}  // namespace

TEST_CASE("redirects: five are followed, six are not") {
  const HttpServer server(count_down);
  const auto five = send_following(Method::kGet, {.url = server.url() + "/5"}, Redirects::kSameOrigin);
  REQUIRE(five.has_value());
  CHECK(five->response.head.status == 200);
  CHECK(five->url == server.url() + "/0");
  CHECK(rule_of(send_following(Method::kGet, {.url = server.url() + "/6"}, Redirects::kSameOrigin)) ==
        diag::rule::http_redirect);
}

TEST_CASE("redirects: a loop ends with a message that names where it leads") {
  const HttpServer server([](const HttpRequest&, Reply& reply) { lead_to(reply, "/loop?secret=1"); });
  const auto answer = send_following(Method::kGet, {.url = server.url() + "/loop"}, Redirects::kAnywhere);
  CHECK(rule_of(answer) == diag::rule::http_redirect);
  CHECK(contains(answer.error().message, "more than 5 redirects"));
  CHECK(contains(answer.error().message, "/loop"));
  CHECK(!contains(answer.error().message, "secret"));
  CHECK(server.requests().size() == 6);
}

TEST_CASE("redirects: a POST keeps method and body with 307 and 308, and is not followed with others") {
  const HttpServer server([](const HttpRequest& request, Reply& reply) {
    if (request.target == "/x") return lead_to(reply, "/0", 302);
    count_down(request, reply);
  });
  const auto kept = send_following(Method::kPost, {.url = server.url() + "/1", .body = "a=b"}, Redirects::kSameOrigin);
  REQUIRE(kept.has_value());
  CHECK(kept->response.body == "POST a=b");
  const auto stayed =
      send_following(Method::kPost, {.url = server.url() + "/x", .body = "a=b"}, Redirects::kSameOrigin);
  REQUIRE(stayed.has_value());
  CHECK(stayed->response.head.status == 302);
}

TEST_CASE("redirects: another origin is followed only when asked") {
  const HttpServer other([](const HttpRequest&, Reply& reply) { reply.whole(200, "text/plain", "other"); });
  const HttpServer server([&](const HttpRequest&, Reply& reply) { lead_to(reply, other.url() + "/f"); });
  const auto stayed = send_following(Method::kGet, {.url = server.url()}, Redirects::kSameOrigin);
  REQUIRE(stayed.has_value());
  CHECK(stayed->response.head.status == 302);
  CHECK(other.requests().empty());
  const auto followed = send_following(Method::kGet, {.url = server.url()}, Redirects::kAnywhere);
  REQUIRE(followed.has_value());
  CHECK(followed->response.body == "other");
  CHECK(followed->url == other.url() + "/f");
}

TEST_CASE("redirects: credentials stay with the first origin, and do not come back") {
  HttpServer* first = nullptr;
  const HttpServer other([&](const HttpRequest&, Reply& reply) { lead_to(reply, first->url() + "/back"); });
  HttpServer server([&](const HttpRequest& request, Reply& reply) {
    if (request.target == "/start") return lead_to(reply, "/same");
    if (request.target == "/same") return lead_to(reply, other.url());
    reply.whole(200, "text/plain", "");
  });
  first = &server;
  const auto answer = send_following(Method::kGet,
                                     {.url = server.url() + "/start",
                                      .headers = {{"X-Plain", "p"}},
                                      .credentials = {{"Authorization", "Bearer hunter2"}}},
                                     Redirects::kAnywhere);
  REQUIRE(answer.has_value());
  const auto at_server = server.requests();
  REQUIRE(at_server.size() == 3);
  CHECK(at_server[0].headers.count("authorization") == 1);
  CHECK(at_server[1].headers.count("authorization") == 1);
  CHECK(at_server[2].headers.count("authorization") == 0);
  REQUIRE(other.requests().size() == 1);
  CHECK(other.requests()[0].headers.count("authorization") == 0);
  CHECK(other.requests()[0].headers.at("x-plain") == "p");
}

TEST_CASE("redirects: from https to http is refused") {
  const test::TestAuthority authority;
  const test::TestDir dir;
  const HttpServer open([](const HttpRequest&, Reply& reply) { reply.whole(200, "text/plain", "open"); });
  const HttpServer server([&](const HttpRequest&, Reply& reply) { lead_to(reply, open.url()); }, authority.wires());
  const auto answer = send_following(
      Method::kGet,
      {.url = fmt::format("https://127.0.0.1:{}", server.port()), .ca_file = dir.write("ca.pem", authority.pem())},
      Redirects::kAnywhere);
  CHECK(rule_of(answer) == diag::rule::http_redirect);
  CHECK(contains(answer.error().message, "from https to http://127.0.0.1"));
  CHECK(open.requests().empty());
}

TEST_CASE("redirects: one that leads nowhere, or to no web server, is refused") {
  for (const char* location :
       {"", "Location: \r\n", "Location: file:///etc/passwd\r\n", "Location: ftp://host/x\r\n"}) {
    CAPTURE(location);
    const HttpServer server(
        [&](const HttpRequest&, Reply& reply) { reply.whole(302, "text/plain", "moved", location); });
    CHECK(rule_of(send_following(Method::kGet, {.url = server.url()}, Redirects::kAnywhere)) ==
          diag::rule::http_redirect);
  }
}

TEST_CASE("redirects: the total timeout is for all requests together") {
  const HttpServer server([](const HttpRequest& request, Reply& reply) {
    if (!reply.wait(std::chrono::milliseconds(100))) return;
    count_down(request, reply);
  });
  // Each request alone would be in time.
  CHECK(rule_of(send_following(Method::kGet,
                               {.url = server.url() + "/5", .timeouts = {.total = std::chrono::milliseconds(250)}},
                               Redirects::kAnywhere)) == diag::rule::http_total_timeout);
}

}  // namespace sweep::http
