#include "orchestrator/hub/connection.h"

#include <fmt/format.h>

#include <atomic>

#include "orchestrator/diag/rules/http.h"
#include "orchestrator/diag/rules/hub.h"
#include "tests/support/catch.h"
#include "tests/support/http_server.h"
#include "tests/unit/hub/hub_client.h"

namespace sweep::hub {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::HttpRequest;
using test::HttpServer;
using test::Reply;

Call call_of(const std::string& url) {
  return {.url = url, .about = {.model = "org/name", .revision = "main"}};
}

// Answers `bad` so many times, then well.
class Recovering {
 public:
  Recovering(int times, HttpServer::Script bad)
      : server_([this, times, bad = std::move(bad)](const HttpRequest& request, Reply& reply) {
          if (seen_++ < times) return bad(request, reply);
          reply.whole(200, "text/plain", "well");
        }) {}
  const HttpServer& server() const { return server_; }

 private:
  std::atomic<int> seen_{0};
  HttpServer server_;
};

void status_500(const HttpRequest&, Reply& reply) {
  reply.whole(500, "text/plain", "sorry");
}

diag::Diagnostic refusal_of(int status, const std::string& headers, const std::string& token = {},
                            const std::string& body = "{\"error\":\"because\"}") {
  const HttpServer server(
      [&](const HttpRequest&, Reply& reply) { reply.whole(status, "application/json", body, headers); });
  HubClient client;
  Connection connection = client.connect(server.url(), token);
  const auto answer = connection.send(call_of(server.url() + "/x"));
  REQUIRE(!answer.has_value());
  CHECK(server.requests().size() == 1);
  CHECK(client.waits.empty());
  return answer.error();
}

}  // namespace

TEST_CASE("connection: the token goes to the hub and to nobody else") {
  const HttpServer other([](const HttpRequest&, Reply& reply) { reply.whole(200, "text/plain", "other"); });
  const HttpServer server([&](const HttpRequest&, Reply& reply) {
    reply.whole(302, "text/plain", "", fmt::format("Location: {}/f\r\n", other.url()));
  });
  HubClient client;
  Connection connection = client.connect(server.url(), "hunter2");
  Call call = call_of(server.url() + "/x");
  call.redirects = http::Redirects::kAnywhere;
  REQUIRE(connection.send(call).has_value());
  REQUIRE(connection.send(call_of(other.url())).has_value());
  REQUIRE(server.requests().size() == 1);
  CHECK(server.requests()[0].headers.at("authorization") == "Bearer hunter2");
  REQUIRE(other.requests().size() == 2);
  for (const HttpRequest& request : other.requests()) CHECK(request.headers.count("authorization") == 0);
}

TEST_CASE("connection: a hub in trouble is asked again, a little later each time") {
  const Recovering hub(3, status_500);
  HubClient client;
  Connection connection = client.connect(hub.server().url());
  const auto answer = connection.send(call_of(hub.server().url()));
  REQUIRE(answer.has_value());
  CHECK(answer->response.body == "well");
  REQUIRE(client.waits.size() == 3);
  CHECK(client.waits[0] < client.waits[1]);
  CHECK(client.waits[1] < client.waits[2]);
  REQUIRE(client.retries.size() == 3);
  CHECK(client.retries[0].next_try == 2);
  CHECK(client.retries[0].tries == 5);
  CHECK(contains(client.retries[0].reason, "answered 500"));
  CHECK(client.retries[2].wait == client.waits[2]);
}

TEST_CASE("connection: five tries are enough") {
  const Recovering hub(100, status_500);
  HubClient client;
  Connection connection = client.connect(hub.server().url());
  const auto answer = connection.send(call_of(hub.server().url()));
  REQUIRE(!answer.has_value());
  CHECK(answer.error().rule == diag::rule::hub_unavailable);
  CHECK(contains(answer.error().message, "status 500; tried 5 times"));
  CHECK(hub.server().requests().size() == 5);
  CHECK(client.waits.size() == 4);
}

TEST_CASE("connection: a cut reply is asked for again, and what is kept is whole") {
  const Recovering hub(
      2, [](const HttpRequest&, Reply& reply) { reply.raw("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"); });
  HubClient client;
  Connection connection = client.connect(hub.server().url());
  const auto answer = connection.send(call_of(hub.server().url()));
  REQUIRE(answer.has_value());
  CHECK(answer->response.body == "well");
  CHECK(client.waits.size() == 2);
}

TEST_CASE("connection: a hub that stays away is named with the number of tries") {
  int port = 0;
  {
    const HttpServer gone([](const HttpRequest&, Reply&) {});
    port = gone.port();
  }
  HubClient client;
  const std::string url = fmt::format("http://127.0.0.1:{}", port);
  Connection connection = client.connect(url);
  const auto answer = connection.send(call_of(url));
  REQUIRE(!answer.has_value());
  CHECK(answer.error().rule == diag::rule::http_connect_failed);
  CHECK(contains(answer.error().message, "tried 5 times"));
  CHECK(client.waits.size() == 4);
}

TEST_CASE("connection: the wait that the hub asks for is kept") {
  const Recovering by_header(
      1, [](const HttpRequest&, Reply& reply) { reply.whole(429, "text/plain", "", "Retry-After: 77\r\n"); });
  HubClient client;
  Connection connection = client.connect(by_header.server().url());
  CHECK(connection.send(call_of(by_header.server().url())).has_value());
  CHECK(client.waits == std::vector<milliseconds>{seconds(77)});

  const Recovering by_limit(1, [](const HttpRequest&, Reply& reply) {
    reply.whole(429, "text/plain", "", "RateLimit: \"api\";r=0;t=55\r\n");
  });
  HubClient other;
  Connection second = other.connect(by_limit.server().url());
  CHECK(second.send(call_of(by_limit.server().url())).has_value());
  CHECK(other.waits == std::vector<milliseconds>{seconds(55)});
}

TEST_CASE("connection: a wait that is too long is left to the user, with the time to come back") {
  for (const int status : {429, 503}) {
    const Recovering hub(
        1, [&](const HttpRequest&, Reply& reply) { reply.whole(status, "text/plain", "", "Retry-After: 3600\r\n"); });
    HubClient client;
    Connection connection = client.connect(hub.server().url());
    const auto answer = connection.send(call_of(hub.server().url()));
    REQUIRE(!answer.has_value());
    CHECK(answer.error().rule ==
          (status == 429 ? diag::RuleId(diag::rule::hub_rate_limited) : diag::RuleId(diag::rule::hub_unavailable)));
    CHECK(contains(answer.error().message, "3600 s"));
    CHECK(contains(answer.error().help, "2023-11-14T23:13:20Z"));
    CHECK(client.waits.empty());
  }
}

TEST_CASE("connection: an interrupted wait ends everything") {
  const Recovering hub(1, status_500);
  HubClient client;
  client.interrupt_waits = true;
  Connection connection = client.connect(hub.server().url());
  const auto answer = connection.send(call_of(hub.server().url()));
  REQUIRE(!answer.has_value());
  CHECK(answer.error().rule == diag::rule::http_cancelled);
  CHECK(hub.server().requests().size() == 1);
}

TEST_CASE("connection: a byte at a time ends with the timeout, and is not waited for again") {
  const HttpServer server([](const HttpRequest&, Reply& reply) {
    reply.head(200, "application/json");
    while (reply.wait(milliseconds(5)) && !reply.peer_gone()) reply.piece(" ");
  });
  HubClient client;
  Connection connection = client.connect(server.url(), "", milliseconds(200));
  const auto answer = connection.send(call_of(server.url()));
  REQUIRE(!answer.has_value());
  CHECK(answer.error().rule == diag::rule::http_total_timeout);
  CHECK(contains(answer.error().help, "--timeout"));
  CHECK(client.waits.empty());
}

TEST_CASE("connection: refusals say what the hub means, and what to do") {
  const auto gated = refusal_of(401, "X-Error-Code: GatedRepo\r\n");
  CHECK(gated.rule == diag::rule::hub_gated);
  CHECK(contains(gated.message, "because"));
  CHECK(contains(gated.help, "/org/name"));
  CHECK(contains(gated.help, "HF_TOKEN"));
  CHECK(contains(refusal_of(403, "X-Error-Code: GatedRepo\r\n", "hunter2").help,
                 "the account that the token belongs to"));
  CHECK(refusal_of(401, "").rule == diag::rule::hub_no_access);
  CHECK(contains(refusal_of(401, "", "hunter2").message, "the token is not valid"));
  // To somebody without a token, a private repository does not exist.
  CHECK(refusal_of(401, "X-Error-Code: RepoNotFound\r\n").rule == diag::rule::hub_no_access);
  CHECK(refusal_of(404, "X-Error-Code: RepoNotFound\r\n", "hunter2").rule == diag::rule::hub_no_repository);
  CHECK(refusal_of(404, "X-Error-Code: RevisionNotFound\r\n").rule == diag::rule::hub_no_revision);
  CHECK(refusal_of(404, "X-Error-Code: EntryNotFound\r\n").rule == diag::rule::hub_no_file);
  CHECK(contains(refusal_of(404, "").help, "is a hub"));
  CHECK(refusal_of(407, "").rule == diag::rule::http_proxy);
  CHECK(refusal_of(418, "").rule == diag::rule::hub_bad_reply);
}

TEST_CASE("connection: a refusal of the host that the hub leads to is not the hub's") {
  const HttpServer store([](const HttpRequest&, Reply& reply) {
    reply.whole(403, "application/xml", "<Error>expired</Error>", "X-Error-Code: GatedRepo\r\n");
  });
  const HttpServer server([&](const HttpRequest&, Reply& reply) {
    reply.whole(302, "text/plain", "", fmt::format("Location: {}/f?Signature=secret\r\n", store.url()));
  });
  HubClient client;
  Connection connection = client.connect(server.url());
  Call call = call_of(server.url());
  call.redirects = http::Redirects::kAnywhere;
  const auto answer = connection.send(call);
  REQUIRE(!answer.has_value());
  CHECK(answer.error().rule == diag::rule::hub_bad_reply);
  CHECK(contains(answer.error().message, store.url() + "/f, where the hub led to"));
  CHECK(!contains(answer.error().message, "secret"));
}

TEST_CASE("connection: whoever repeats the token, it is not shown") {
  for (const auto& error :
       {refusal_of(401, "X-Error-Message: bad token hunter2\r\n", "hunter2"),
        refusal_of(403, "", "hunter2", "{\"error\": \"hunter2 and hunter2\"}"),
        refusal_of(404, "X-Error-Code: RevisionNotFound\r\nX-Error-Message: hunter2\r\n", "hunter2")}) {
    CHECK(!contains(error.message + error.help, "hunter2"));
    CHECK(contains(error.message, "***"));
  }
}

TEST_CASE("connection: not even a part of a token is left where a text is cut") {
  HubClient client;
  const std::string token = "hunter2" + std::string(1000, 'x');
  const Connection connection = client.connect("http://127.0.0.1:9", token);
  for (size_t before = 0; before < 1500; before += 7)
    CHECK(!contains(connection.quoted(std::string(before, '-') + token + token), "hun"));
  const Connection star = client.connect("http://127.0.0.1:9", "*");
  CHECK(star.quoted("a*b") == "a***b");
}

TEST_CASE("connection: what a server says stays on one line and is not endless") {
  const auto error = refusal_of(403, "", "", "{\"error\": \"a\\n\\u001b[2Jb" + std::string(10'000, 'x') + "\"}");
  CHECK(!contains(error.message, "\n"));
  CHECK(!contains(error.message, "\x1b"));
  CHECK(error.message.size() < 600);
}

}  // namespace sweep::hub
