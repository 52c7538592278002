// Servers that are odd but right, or wrong in the details of their stream, over HTTP and HTTPS.
#include <fmt/format.h>

#include <atomic>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "orchestrator/diag/rules/http.h"
#include "orchestrator/diag/rules/load.h"
#include "orchestrator/loadgen/closed_loop.h"
#include "orchestrator/sample/metrics.h"
#include "tests/support/catch.h"
#include "tests/support/environment.h"
#include "tests/support/http_server.h"
#include "tests/support/test_dir.h"
#include "tests/support/tls.h"

namespace sweep::loadgen {

namespace {

using std::chrono::milliseconds;
using test::HttpRequest;
using test::HttpServer;
using test::Reply;
using Events = std::vector<std::string>;

constexpr int64_t kPrompt = 16;
constexpr int64_t kOutput = 4;

LoadSpec small_spec(const std::string& url, int64_t requests = 1) {
  return {.job = "job",
          .base_url = url,
          .model = "m",
          .isl = kPrompt,
          .osl = kOutput,
          .concurrency = 4,
          .requests = requests,
          .prompt_tokens = {.begin = 10, .end = 1000},
          .seed = 1,
          .give_up_after = 0};
}

Measurement measure(const LoadSpec& spec) {
  auto measurement =
      run_closed_loop(spec, [](const sample::Sample&) -> diag::Result<diag::Done> { return diag::Done{}; });
  REQUIRE(measurement.has_value());
  return std::move(*measurement);
}

std::string sent_event(std::string_view json) {
  return fmt::format("data: {}\n\n", json);
}
std::string usage(int64_t completed) {
  return fmt::format(R"("usage":{{"prompt_tokens":{},"completion_tokens":{}}})", kPrompt, completed);
}
std::string sent_tokens(std::string_view text, std::string_view ids, std::string_view reason = "null") {
  return sent_event(fmt::format(
      R"({{"id":"x","choices":[{{"index":0,"text":"{}","token_ids":[{}],"finish_reason":{}}}]}})", text, ids, reason));
}
const std::string kLast = sent_tokens("\xF0\x9F\x98\x80", "14", "\"length\"");  // one character of four bytes
const std::string kUsage = sent_event(fmt::format(R"({{"id":"x","choices":[],{}}})", usage(kOutput)));
const std::string kSentDone = "data: [DONE]\n\n";
const Events kGood{sent_tokens("\xC3\xA9", "11"), sent_tokens("b\xE2\x82\xAC", "12,13"), kLast, kUsage, kSentDone};

std::string joined(const Events& events) {
  std::string text;
  for (const std::string& one : events) text += one;
  return text;
}

HttpServer::Script sending(Events pieces) {
  return [pieces = std::move(pieces)](const HttpRequest&, Reply& reply) {
    reply.head(200, "text/event-stream");
    for (const std::string& piece : pieces) reply.piece(piece);
    reply.end();
  };
}

// The same events as chat completions: the text is in a delta.
Events as_chat(Events pieces) {
  static const std::regex kText(R"("text":("[^"]*"))");
  for (std::string& piece : pieces) piece = std::regex_replace(piece, kText, R"("delta":{"content":$1})");
  return pieces;
}

LoadSpec as_chat(LoadSpec spec) {
  spec.api = Api::kChat;
  spec.prompt_words = {"able", "acid"};
  return spec;
}

// Answers its n-th request with the good stream in two pieces, the first of n + 1 bytes.
HttpServer::Script splitting(std::atomic<size_t>& next) {
  return [&next, text = joined(kGood)](const HttpRequest&, Reply& reply) {
    const size_t at = next++ % (text.size() - 1) + 1;
    reply.head(200, "text/event-stream");
    reply.piece(text.substr(0, at));
    reply.piece(text.substr(at));
    reply.end();
  };
}

void check_all_alike(const Measurement& m, size_t requests) {
  CHECK_FALSE(m.problems.has_errors());  // that pieces were read together is worth a warning
  REQUIRE(m.samples.size() == requests);
  std::set<std::string> outputs;
  for (const sample::Sample& s : m.samples) {
    CHECK(s.ok());
    CHECK(s.received_tokens == kOutput);
    CHECK(s.bytes == static_cast<int64_t>(joined(kGood).size()));
    outputs.insert(s.output_sha256);
  }
  CHECK(outputs.size() == 1);
}

std::string https_url(const HttpServer& server) {
  return fmt::format("https://127.0.0.1:{}", server.port());
}

}  // namespace

TEST_CASE("bad servers: a stream split at any byte gives the same tokens, over HTTP") {
  std::atomic<size_t> next = 0;
  const HttpServer server(splitting(next));
  const size_t splits = joined(kGood).size() - 1;
  check_all_alike(measure(small_spec(server.url(), static_cast<int64_t>(splits))), splits);
  CHECK(next == splits);
}

TEST_CASE("bad servers: a stream split at any byte gives the same tokens, over HTTPS") {
  const test::TestAuthority authority;
  const test::TestDir dir;
  std::atomic<size_t> next = 0;
  const HttpServer server(splitting(next), authority.wires());
  const size_t splits = joined(kGood).size() - 1;
  // One authority in place of the system's many, which would be read for every connection.
  const test::EnvironmentVariable bundle("CURL_CA_BUNDLE", std::nullopt);
  const test::EnvironmentVariable authorities("SSL_CERT_FILE", dir.write("ca.pem", authority.pem()).string());
  check_all_alike(measure(small_spec(https_url(server), static_cast<int64_t>(splits))), splits);
  CHECK(next == splits);
}

TEST_CASE("bad servers: over HTTPS, the key goes into a header, and an unknown authority fails without sending it") {
  const test::TestAuthority authority;
  const test::TestDir dir;
  const HttpServer server(sending(kGood), authority.wires());
  LoadSpec spec = small_spec(https_url(server), 2);
  spec.access.bearer_token = "hunter2";
  const Measurement refused = measure(spec);
  CHECK(server.requests().empty());
  REQUIRE(refused.problems.items().size() == 2);
  CHECK(refused.problems.items()[0].rule == diag::rule::http_tls);
  spec.access.ca_file = dir.write("ca.pem", authority.pem());
  const Measurement m = measure(spec);
  CHECK(m.problems.empty());
  CHECK(server.requests().at(0).headers.at("authorization") == "Bearer hunter2");
  for (const auto& problem : refused.problems.items()) CHECK(!contains(problem.message + problem.help, "hunter2"));
}

TEST_CASE("bad servers: what is odd but right is counted right") {
  const std::string role = sent_event(R"({"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]})");
  const std::string finish = sent_event(R"({"choices":[{"index":0,"text":"","finish_reason":"length"}]})");
  struct Case {
    const char* what;
    Events pieces;
  };
  const std::vector<Case> cases{
      {"as it should be", kGood},
      {"one write", {joined(kGood)}},
      {"role-only first event", {role, joined(kGood)}},
      {"keep-alives between", {": ping\n\n", kGood[0], ":\n\n", kGood[1], kLast, ": ping\n\n", kUsage, kSentDone}},
      {"all tokens in one event", {sent_tokens("abcd", "11,12,13,14", "\"length\""), kUsage, kSentDone}},
      {"finish reason alone", {kGood[0], kGood[1], sent_tokens("d", "14"), finish, kUsage, kSentDone}},
      {"usage before the tokens end", {kGood[0], kGood[1], kUsage, kLast, kSentDone}},
      {"usage null, then a usage", {sent_event(R"({"choices":[],"usage":null})"), joined(kGood)}},
      {"usage with the last token",
       {kGood[0], kGood[1],
        sent_event(fmt::format(R"({{"choices":[{{"text":"d","token_ids":[14],"finish_reason":"length"}}],{}}})",
                               usage(kOutput))),
        kSentDone}},
      {"usage twice", {kGood[0], kGood[1], kLast, kUsage, kUsage, kSentDone}},
      {"no usage event, the usage with the last token alone",
       {kGood[0], kGood[1],
        sent_event(fmt::format(R"({{"choices":[{{"text":"d","token_ids":[14],"finish_reason":"length"}}],{}}})",
                               usage(kOutput))),
        kSentDone}},
      {"data in several lines",
       {"data: {\"choices\":[{\"text\":\"a\",\ndata: \"token_ids\":[11],\ndata:\"finish_reason\":null}]}\n\n", kGood[1],
        kLast, kUsage, kSentDone}},
      {"lines end with CR",
       {"data: " + kGood[0].substr(6, kGood[0].size() - 8) + "\r\r", kGood[1], kLast, kUsage, "data: [DONE]\r\r"}},
      {"a byte order mark, names, numbers and times to retry",
       {"\xEF\xBB\xBF"
        "retry: 10\nid: 1\nevent: completion\n" +
            kGood[0],
        "id: 1\n" + kGood[1], "id\n" + kLast, kUsage, kSentDone}},
      {"more after [DONE]", {joined(kGood), sent_tokens("more", "15,16"), kUsage}},
      {"lines end with CRLF",
       {"data: " + kGood[0].substr(6, kGood[0].size() - 8) + "\r\n\r\n", kGood[1], kLast, kUsage, kSentDone}},
  };
  for (const Case& c : cases) {
    for (const bool chat : {false, true}) {
      CAPTURE(c.what, chat);
      const HttpServer server(sending(chat ? as_chat(c.pieces) : c.pieces));
      // The identifier "x" is that of all replies: they are told apart by their connections.
      const LoadSpec spec = small_spec(server.url(), 4);
      const Measurement m = measure(chat ? as_chat(spec) : spec);
      std::string messages;
      for (const auto& problem : m.problems.items()) messages += problem.message + "\n";
      CAPTURE(messages);
      CHECK(m.problems.empty());
      for (const sample::Sample& s : m.samples) CHECK(s.received_tokens == kOutput);
    }
  }
}

TEST_CASE("bad servers: events that come together by the hundred are counted right, and said to blur the times") {
  constexpr int64_t kEvents = 400;
  std::string all;
  for (int i = 0; i < kEvents; ++i)
    all += sent_tokens("a", std::to_string(i), i + 1 == kEvents ? "\"length\"" : "null");
  all += sent_event(fmt::format(R"({{"choices":[],{}}})", usage(kEvents))) + kSentDone;
  const HttpServer server(sending({all}));
  LoadSpec spec = small_spec(server.url(), 4);
  spec.osl = kEvents;
  const Measurement m = measure(spec);
  for (const sample::Sample& s : m.samples) CHECK(s.ok());
  REQUIRE(m.problems.items().size() == 1);
  CHECK(m.problems.items()[0].rule == diag::rule::load_joined_events);
  CHECK(contains(m.problems.items()[0].message, "of 1600 events"));
}

TEST_CASE("bad servers: an event that comes twice is a wrong count") {
  const HttpServer server(sending({kGood[0], kGood[1], kGood[1], kLast, kUsage, kSentDone}));
  const Measurement m = measure(small_spec(server.url()));
  REQUIRE(m.problems.items().size() == 1);
  CHECK(contains(m.problems.items()[0].message, "usage says 4 output tokens, 6 were received"));
}

TEST_CASE("bad servers: a late [DONE] moves no latency") {
  const HttpServer server([](const HttpRequest&, Reply& reply) {
    reply.head(200, "text/event-stream");
    for (const std::string& piece : {kGood[0], kGood[1], kLast}) reply.piece(piece);
    if (!reply.wait(milliseconds(50))) return;
    reply.piece(kUsage);
    if (!reply.wait(milliseconds(50))) return;
    reply.piece(kSentDone);
    reply.end();
  });
  const Measurement m = measure(small_spec(server.url()));
  CHECK(m.problems.empty());
  const sample::Sample& s = m.samples.at(0);
  CHECK(s.end_ns - *s.last_token_ns >= 90'000'000);
  CHECK(*sample::e2e_ms(s) == Approx(static_cast<double>(*s.last_token_ns - s.sent_ns) * 1e-6));
}

}  // namespace sweep::loadgen
