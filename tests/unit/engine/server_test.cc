// The server's answers over a real socket.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "tests/support/catch.h"
#include "tests/unit/engine/http_client.h"
#include "tests/unit/engine/server_process.h"

using namespace sweep;
using namespace sweep::engine::embedded;
using nlohmann::json;

namespace {

json ids(int64_t count, int64_t seed) {
  json list = json::array();
  for (int64_t i = 0; i < count; ++i) list.push_back(4 + (i * i * 7 + i * seed + seed) % 20);
  return list;
}

json completion(int64_t prompt, int64_t tokens, int64_t seed = 1) {
  return {{"prompt", ids(prompt, seed)},
          {"max_tokens", tokens},
          {"temperature", 0},
          {"ignore_eos", true},
          {"return_token_ids", true}};
}

std::vector<int> tokens_of(const HttpResponse& response) {
  REQUIRE(response.status == 200);
  return json::parse(response.body)["choices"][0]["token_ids"].get<std::vector<int>>();
}

// The value of a metric without further labels.
double metric(HttpClient& client, const std::string& name) {
  const auto response = client.get("/metrics");
  REQUIRE(response.status == 200);
  const size_t at = response.body.find("\nembedded:" + name + "{");
  REQUIRE(at != std::string::npos);
  return std::stod(response.body.substr(response.body.find("} ", at) + 2));
}

}  // namespace

TEST_CASE("server: health, models and server_info say what is served") {
  ServerProcess server({"--acceptance", "explicit", "--acceptance-length", "5.7", "--served-model-name", "tiny"});
  REQUIRE(server.port() > 0);
  HttpClient client(server.port());
  CHECK(client.get("/health").status == 200);
  const auto models = json::parse(client.get("/v1/models").body);
  CHECK(models["data"][0]["id"] == "tiny");
  CHECK(models["data"][0]["max_model_len"] == 500);
  const auto info = json::parse(client.get("/server_info").body);
  CHECK(info["engine"] == "embedded");
  CHECK(info["kv_layout"] == "v4_584");
  CHECK(info["acceptance"] == json({{"source", "explicit"}, {"length", 5.7}}));
  CHECK(info["kernels"]["path"] == SWEEPCTL_TEST_KERNELS);
  CHECK(info["kernels"]["sha256"].get<std::string>().size() == 64);
  CHECK(info["kernels"]["arch"] == "cpu");
  CHECK(info["threads"] == 2);
}

TEST_CASE("server: a stream has one event per step, then the finish reason, usage and [DONE]") {
  ServerProcess server({"--acceptance", "explicit", "--acceptance-length", "5.7"});
  REQUIRE(server.port() > 0);
  HttpClient client(server.port());
  auto request = completion(40, 60);
  request["stream"] = true;
  request["stream_options"] = {{"include_usage", true}, {"continuous_usage_stats", true}};
  const auto response = client.post("/v1/completions", request.dump());
  REQUIRE(response.status == 200);
  CHECK(contains(response.head, "text/event-stream"));
  auto events = sse_events(response.body);
  REQUIRE(events.size() > 4);
  CHECK(events.back() == "[DONE]");
  events.pop_back();
  const auto usage = json::parse(events.back());
  events.pop_back();
  CHECK(usage["choices"].empty());
  CHECK(usage["usage"] == json({{"prompt_tokens", 40},
                                {"completion_tokens", 60},
                                {"total_tokens", 100},
                                {"prompt_tokens_details", {{"cached_tokens", 0}}}}));
  size_t tokens = 0;
  std::string text;
  for (size_t i = 0; i < events.size(); ++i) {
    const auto event = json::parse(events[i]);
    const auto& choice = event["choices"][0];
    const size_t count = choice["token_ids"].size();
    tokens += count;
    text += choice["text"].get<std::string>();
    const bool is_last = i + 1 == events.size();
    if (i == 0) CHECK(count == 1);
    if (i > 0 && !is_last) CHECK((count == 5 || count == 6));
    CHECK(choice["finish_reason"] == (is_last ? json("length") : json()));
    CHECK(event["usage"]["completion_tokens"] == tokens);
    CHECK(event["id"] == usage["id"]);
    CHECK(event["object"] == "text_completion");
  }
  CHECK(tokens == 60);

  request["stream"] = false;
  request.erase("stream_options");
  const auto whole = json::parse(client.post("/v1/completions", request.dump()).body);
  CHECK(whole["choices"][0]["text"] == text);
  CHECK(whole["choices"][0]["finish_reason"] == "length");
  CHECK(whole["usage"] == usage["usage"]);
}

TEST_CASE("server: without stream options there is no usage, without return_token_ids there are no ids") {
  ServerProcess server;
  REQUIRE(server.port() > 0);
  HttpClient client(server.port());
  auto request = completion(5, 10);
  request["stream"] = true;
  request.erase("return_token_ids");
  const auto response = client.post("/v1/completions", request.dump());
  CHECK(!contains(response.body, "usage"));
  CHECK(!contains(response.body, "token_ids"));
  CHECK(sse_events(response.body).back() == "[DONE]");
}

TEST_CASE("server: lengths are exact for every combination") {
  ServerProcess server({"--acceptance", "explicit", "--acceptance-length", "5.7"});
  REQUIRE(server.port() > 0);
  HttpClient client(server.port());
  for (const int64_t prompt : {1, 15, 16, 17, 33, 490}) {
    for (const int64_t tokens : {1, 2, 8, 10}) {
      const auto response = client.post("/v1/completions", completion(prompt, tokens).dump());
      REQUIRE(response.status == 200);
      const auto body = json::parse(response.body);
      CHECK(body["usage"]["prompt_tokens"] == prompt);
      CHECK(body["usage"]["completion_tokens"] == tokens);
      CHECK(static_cast<int64_t>(body["choices"][0]["token_ids"].size()) == tokens);
    }
  }
  CHECK(metric(client, "prompt_tokens_total") == 4 * (1 + 15 + 16 + 17 + 33 + 490));
  CHECK(metric(client, "generation_tokens_total") == 6 * (1 + 2 + 8 + 10));
  CHECK(client.post("/v1/completions", completion(490, 11).dump()).status == 400);
}

TEST_CASE("server: requests at once get the tokens they get alone") {
  ServerProcess server;
  REQUIRE(server.port() > 0);
  std::vector<std::vector<int>> alone;
  for (int64_t i = 0; i < 6; ++i) {
    alone.push_back(
        tokens_of(HttpClient(server.port()).post("/v1/completions", completion(30 + i * 50, 60, i).dump())));
  }
  std::vector<HttpResponse> together(alone.size());
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < alone.size(); ++i) {
      threads.emplace_back([&, i] {
        const auto seed = static_cast<int64_t>(i);
        together[i] = HttpClient(server.port()).post("/v1/completions", completion(30 + seed * 50, 60, seed).dump());
      });
    }
  }
  for (size_t i = 0; i < alone.size(); ++i) CHECK(tokens_of(together[i]) == alone[i]);
}

TEST_CASE("server: errors have OpenAI's shape and leave the connection usable") {
  ServerProcess server;
  REQUIRE(server.port() > 0);
  HttpClient client(server.port());
  const auto unknown = client.post("/v1/completions", R"({"model":"other","prompt":[5]})");
  CHECK(unknown.status == 404);
  const auto error = json::parse(unknown.body)["error"];
  CHECK(error["type"] == "invalid_request_error");
  CHECK(error["param"] == "model");
  CHECK(error["code"] == "model_not_found");
  CHECK(!error["message"].get<std::string>().empty());
  CHECK(client.post("/v1/completions", "nonsense").status == 400);
  CHECK(client.post("/v1/completions", R"({"prompt":[5],"stop":["a"]})").status == 400);
  CHECK(client.post("/v1/completions", R"({"prompt":[99]})").status == 400);
  CHECK(client.get("/v1/completions").status == 405);
  CHECK(client.post("/health", "").status == 405);
  CHECK(client.get("/nothing").status == 404);
  CHECK(client.get("/health?probe=1").status == 200);
}

TEST_CASE("server: counters give the acceptance length, and a request's steps are in the log before its end") {
  ServerProcess server({"--acceptance", "explicit", "--acceptance-length", "3.0"});
  REQUIRE(server.port() > 0);
  HttpClient client(server.port());
  CHECK(tokens_of(client.post("/v1/completions", completion(5, 1 + 3 * 80).dump())).size() == 241);
  CHECK(metric(client, "spec_decode_num_drafts_total") == 80);
  CHECK(metric(client, "spec_decode_num_draft_tokens_total") == 560);
  CHECK(metric(client, "spec_decode_num_accepted_tokens_total") == 160);
  CHECK(metric(client, "num_requests_running") == 0);
  CHECK(metric(client, "kv_cache_usage_perc") == 0);
  CHECK(metric(client, "prefix_cache_hits_total") == 0);
  int windows = 0;
  std::string log = server.log();
  while (!log.empty()) {
    const size_t end = log.find('\n');
    const auto line = json::parse(log.substr(0, end));
    log.erase(0, end + 1);
    if (line["event"] != "decode_window") continue;
    ++windows;
    CHECK(line["steps"] == 40);
    CHECK(line["accepted"] == 80);
    CHECK(line["unix_ns_begin"] < line["unix_ns_end"]);
  }
  CHECK(windows == 2);
}
