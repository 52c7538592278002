// Clients that misbehave: the server refuses, or waits, or forgets them; it never falls over.
#include <nlohmann/json.hpp>

#include "tests/support/catch.h"
#include "tests/unit/engine/http_client.h"
#include "tests/unit/engine/server_process.h"

using namespace sweep;
using namespace sweep::engine::embedded;

namespace {

constexpr const char* kLong = R"({"prompt":[5,6,7],"max_tokens":480,"ignore_eos":true,"stream":true,"temperature":0})";

std::string post_bytes(const std::string& body) {
  return "POST /v1/completions HTTP/1.1\r\nHost: t\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
         body;
}

bool is_alive(const ServerProcess& server) {
  return HttpClient(server.port()).get("/health").status == 200;
}

// Asks until the metric has this value.
void wait_for_metric(const ServerProcess& server, const std::string& line) {
  while (!contains(HttpClient(server.port()).get("/metrics").body, line)) {
  }
}

}  // namespace

TEST_CASE("server abuse: requests in single bytes, pipelined and after empty lines are answered in order") {
  ServerProcess server;
  REQUIRE(server.port() > 0);
  HttpClient client(server.port());
  const std::string request = post_bytes(R"({"prompt":[5],"max_tokens":2,"temperature":0})");
  for (const char byte : request) client.send(std::string(1, byte));
  CHECK(client.read_response().status == 200);
  client.send("\r\n" + request + "GET /health HTTP/1.1\r\nHost: t\r\n\r\n" + "GET /no HTTP/1.1\r\nHost: t\r\n\r\n");
  CHECK(contains(client.read_response().body, "text_completion"));
  CHECK(contains(client.read_response().body, "ok"));
  CHECK(client.read_response().status == 404);
}

TEST_CASE("server abuse: malformed and oversized requests get their status, then the connection closes") {
  ServerProcess server;
  REQUIRE(server.port() > 0);
  struct Case {
    std::string bytes;
    int status;
  };
  const Case cases[] = {
      {"nonsense\r\n\r\n", 400},
      {"GET / HTTP/3.0\r\nHost: t\r\n\r\n", 505},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET /" + std::string(20'000, 'a') + " HTTP/1.1\r\nHost: t\r\n\r\n", 414},
      {"GET / HTTP/1.1\r\nHost: t\r\na: " + std::string(1'000'000, 'a') + "\r\n\r\n", 431},
      {"POST /v1/completions HTTP/1.1\r\nHost: t\r\nContent-Length: 99999999999\r\n\r\n", 413},
      {"POST /v1/completions HTTP/1.1\r\nHost: t\r\nContent-Length: abc\r\n\r\n", 400},
      {"POST /v1/completions HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 501},
  };
  for (const auto& c : cases) {
    INFO(c.bytes.substr(0, 80));
    HttpClient client(server.port());
    client.send(c.bytes);
    const auto response = client.read_response();
    CHECK(response.status == c.status);
    CHECK(nlohmann::json::parse(response.body)["error"]["type"] == "invalid_request_error");
    CHECK(client.is_closed_by_server());
  }
  CHECK(is_alive(server));
}

TEST_CASE("server abuse: bodies that are not JSON or hostile JSON get 400 and the server lives on") {
  ServerProcess server;
  REQUIRE(server.port() > 0);
  HttpClient client(server.port());
  for (const std::string& body :
       {std::string(), std::string("{"), std::string("\0\0", 2), std::string(100'000, '['), std::string("{\"a\":"),
        std::string("\xFF\xFE"), std::string(R"({"prompt":"\ud800"})"), "[" + std::string(50'000, '1') + "]",
        std::string(R"({"prompt":[1e999]})"), std::string(R"({"prompt":)") + std::string(200'000, '{')}) {
    INFO(body.substr(0, 40));
    CHECK(client.post("/v1/completions", body).status == 400);
  }
  CHECK(is_alive(server));
}

TEST_CASE("server abuse: a body announced with Expect is asked for") {
  ServerProcess server;
  REQUIRE(server.port() > 0);
  HttpClient client(server.port());
  const std::string body = R"({"prompt":[5],"max_tokens":2})";
  client.send("POST /v1/completions HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n");
  CHECK(client.read_response().status == 100);
  client.send(body);
  CHECK(client.read_response().status == 200);
}

TEST_CASE("server abuse: clients that leave in the middle free their request") {
  ServerProcess server({"--max-num-seqs", "2"});
  REQUIRE(server.port() > 0);
  for (int i = 0; i < 20; ++i) {
    HttpClient client(server.port());
    client.send(post_bytes(kLong));
    if (i % 3 == 1) client.finish_sending();
    if (i % 3 == 2) client.send("GET /health HTTP/1.1\r\n");  // and half of another request
  }
  wait_for_metric(server, "embedded:num_requests_running{model_name=\"small\"} 0\n");
  wait_for_metric(server, "embedded:num_requests_waiting{model_name=\"small\"} 0\n");
  wait_for_metric(server, "embedded:kv_cache_usage_perc{model_name=\"small\"} 0\n");
  CHECK(contains(HttpClient(server.port()).get("/metrics").body, "finished_reason=\"abort\"}"));
  CHECK(HttpClient(server.port()).post("/v1/completions", R"({"prompt":[5],"max_tokens":3})").status == 200);
}

TEST_CASE("server abuse: connections that say nothing or half a request do not keep others from being served") {
  ServerProcess server;
  REQUIRE(server.port() > 0);
  std::vector<std::unique_ptr<HttpClient>> idle;
  for (int i = 0; i < 100; ++i) {
    idle.push_back(std::make_unique<HttpClient>(server.port()));
    if (i % 2 == 0) idle.back()->send("POST /v1/completions HTTP/1.1\r\nHost: t\r\nContent-Le");
  }
  CHECK(HttpClient(server.port()).post("/v1/completions", R"({"prompt":[5],"max_tokens":3})").status == 200);
}

TEST_CASE("server abuse: HTTP/1.0 and Connection: close end the connection after the answer") {
  ServerProcess server;
  REQUIRE(server.port() > 0);
  for (const char* request :
       {"GET /health HTTP/1.0\r\n\r\n", "GET /health HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n"}) {
    HttpClient client(server.port());
    client.send(request);
    CHECK(client.read_response().status == 200);
    CHECK(client.is_closed_by_server());
  }
}
