// Chat completions: prompts of exact length where a server takes text only.
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "orchestrator/diag/rules/http.h"
#include "orchestrator/diag/rules/load.h"
#include "orchestrator/loadgen/chat_template.h"
#include "orchestrator/loadgen/closed_loop.h"
#include "tests/support/catch.h"
#include "tests/support/chat_server.h"

namespace sweep::loadgen {

namespace {

using test::ChatServer;

LoadSpec chat_spec(const std::string& url) {
  return {.job = "job",
          .base_url = url,
          .api = Api::kChat,
          .model = "embedded",
          .isl = 40,
          .osl = 10,
          .concurrency = 2,
          .requests = 4,
          .warmup_requests = 2,
          .prompt_words = {"able", "acid", "aged", "also", "area", "army", "away", "baby"},
          .seed = 1,
          .give_up_after = 0};
}

Measurement run_chat(const LoadSpec& spec) {
  auto measurement =
      run_closed_loop(spec, [](const sample::Sample&) -> diag::Result<diag::Done> { return diag::Done{}; });
  REQUIRE(measurement.has_value());
  return std::move(*measurement);
}

std::string content_of(const test::HttpRequest& request) {
  return nlohmann::json::parse(request.body)["messages"][0]["content"];
}

}  // namespace

TEST_CASE("chat: after one request that asks for the template, every prompt has exactly the length") {
  const ChatServer server({.template_tokens = 7});
  LoadSpec spec = chat_spec(server.url());
  const auto added = find_template_tokens(spec);
  REQUIRE(added.has_value());
  CHECK(*added == 7);
  spec.template_tokens = *added;
  const Measurement m = run_chat(spec);
  CHECK(m.problems.empty());
  REQUIRE(m.samples.size() == 6);
  for (const sample::Sample& s : m.samples) {
    CHECK(s.ok());
    CHECK(s.prompt_tokens == 40);
    CHECK(s.received_tokens == 10);
    CHECK(s.chunks.size() <= 4);  // neither the role nor the finish is one
  }
  std::set<std::string> beginnings;
  for (const auto& request : server.server().requests()) {
    CHECK(request.target == "/v1/chat/completions");
    beginnings.insert(content_of(request).substr(0, 60));
  }
  CHECK(beginnings.size() == 7);  // no two prompts begin alike, the one that asked included
}

TEST_CASE("chat: a server that counts otherwise than the tokenizer of the weights makes no exact prompt") {
  const ChatServer server({.template_tokens = 7, .split_every = 16});
  LoadSpec spec = chat_spec(server.url());
  const auto added = find_template_tokens(spec);
  REQUIRE(added.has_value());
  spec.template_tokens = *added;
  const Measurement m = run_chat(spec);
  CHECK(m.problems.has_errors());
  for (const auto& problem : m.problems.items()) CHECK(problem.rule == diag::rule::load_prompt_length);
}

TEST_CASE("chat: a template that leaves no room, and a server that counts too few, are refused") {
  for (const int64_t tokens : {int64_t{40}, int64_t{400}, int64_t{-3}}) {
    const ChatServer server({.template_tokens = tokens});
    const auto added = find_template_tokens(chat_spec(server.url()));
    REQUIRE_FALSE(added.has_value());
    CHECK(added.error().rule == diag::rule::load_template_unknown);
  }
}

TEST_CASE("chat: a server that does not answer, or has no such path, is named as that") {
  CHECK(find_template_tokens(chat_spec("http://127.0.0.1:1")).error().rule == diag::rule::http_connect_failed);
  const test::HttpServer other(
      [](const test::HttpRequest&, test::Reply& reply) { reply.whole(404, "text/plain", "not here"); });
  CHECK(find_template_tokens(chat_spec(other.url())).error().rule == diag::rule::load_http_status);
}

TEST_CASE("chat: without continuous usage the reply's length rests on the final usage, and says so") {
  const ChatServer server({.continuous_usage = false});
  LoadSpec spec = chat_spec(server.url());
  spec.template_tokens = 7;
  const Measurement m = run_chat(spec);
  REQUIRE(m.problems.items().size() == 1);
  CHECK(m.problems.items()[0].rule == diag::rule::load_received_unknown);
  for (const sample::Sample& s : m.samples) {
    CHECK(s.ok());
    CHECK(!s.received_tokens);
    CHECK(s.completion_tokens == 10);
  }
}

TEST_CASE("chat: the body holds one message of words and the same limits as a completion") {
  LoadSpec spec = chat_spec("http://127.0.0.1:1");
  spec.template_tokens = 7;
  const auto body = nlohmann::json::parse(completion_body(spec, 77), nullptr, false);
  REQUIRE(body.is_object());
  REQUIRE(body["messages"].size() == 1);
  CHECK(body["messages"][0]["role"] == "user");
  CHECK(body["messages"][0]["content"] == make_words(77, 33, spec.prompt_words));
  CHECK(body["max_tokens"] == 10);
  CHECK(body["min_tokens"] == 10);
  CHECK(body["ignore_eos"] == true);
  CHECK(!body.contains("prompt"));
}

TEST_CASE("chat: a spec without words, or with a template that fills the prompt, is refused") {
  LoadSpec spec = chat_spec("http://127.0.0.1:1");
  CHECK(check(spec).empty());
  spec.prompt_words = {"only"};
  spec.template_tokens = 40;
  CHECK(check(spec).items().size() == 2);
}

}  // namespace sweep::loadgen
