#include "orchestrator/loadgen/completion_stream.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "orchestrator/digest/sha256.h"
#include "orchestrator/loadgen/completion_event.h"
#include "tests/support/catch.h"

namespace sweep::loadgen {

namespace {

struct Observed {
  sample::Sample sample;
  std::vector<std::string> rules;
  std::string messages;
};

// Feeds one piece per millisecond, from 1 ms on.
Observed observe(const std::vector<std::string>& pieces, bool complete = true) {
  Observed observed;
  CompletionStream stream(observed.sample);
  int64_t ns = 0;
  for (const std::string& piece : pieces) stream.receive(piece, ns += 1'000'000);
  stream.finish(complete);
  for (const diag::Diagnostic& problem : stream.problems()) {
    observed.rules.emplace_back(diag::rule_info(problem.rule).slug);
    observed.messages += problem.message + "\n";
  }
  return observed;
}

std::string event(std::string_view json) {
  return fmt::format("data: {}\n\n", json);
}
// A completion event with text, ids and the count so far; parts that are empty or negative are left out.
std::string tokens(std::string_view text, std::string_view ids, int counted, std::string_view reason = "null") {
  return event(
      fmt::format(R"({{"choices":[{{"index":0,"text":"{}"{},"finish_reason":{}}}]{}}})", text,
                  ids.empty() ? "" : fmt::format(R"(,"token_ids":[{}])", ids), reason,
                  counted < 0 ? "" : fmt::format(R"(,"usage":{{"prompt_tokens":4,"completion_tokens":{}}})", counted)));
}
std::string final_usage(int counted) {
  return event(fmt::format(
      R"({{"choices":[],"usage":{{"prompt_tokens":4,"completion_tokens":{},"prompt_tokens_details":{{"cached_tokens":2}}}}}})",
      counted));
}
const std::string kDone = "data: [DONE]\n\n";
using RuleList = std::vector<std::string>;

}  // namespace

TEST_CASE("completion stream: token ids are counted and hashed, usage is read") {
  const auto o = observe({tokens("a", "11", 1), tokens(" b c", "12,13", 3, "\"length\""), final_usage(3), kDone});
  CHECK(o.rules.empty());
  CHECK(*o.sample.received_tokens == 3);
  CHECK(*o.sample.completion_tokens == 3);
  CHECK(*o.sample.prompt_tokens == 4);
  CHECK(*o.sample.cached_tokens == 2);
  CHECK(o.sample.finish_reason == "length");
  CHECK(*o.sample.first_byte_ns == 1'000'000);
  CHECK(*o.sample.first_token_ns == 1'000'000);
  CHECK(*o.sample.last_token_ns == 2'000'000);
  CHECK((o.sample.chunks == std::vector<sample::Chunk>{{1'000'000, 1}, {2'000'000, 2}}));
  CHECK(o.sample.output_kind == sample::OutputKind::kTokenIds);
  CHECK(o.sample.output_sha256 == digest::sha256_hex("11\n12\n13\n"));
}

TEST_CASE("completion stream: without ids the steps of continuous usage are the count, and the text is hashed") {
  const auto o =
      observe({tokens("a", "", 1), tokens("bcd", "", 7), tokens("e", "", 9, "\"length\""), final_usage(9), kDone});
  CHECK(o.rules.empty());
  CHECK(*o.sample.received_tokens == 9);
  CHECK(*o.sample.chunks[1].tokens == 6);
  CHECK(o.sample.output_kind == sample::OutputKind::kText);
  CHECK(o.sample.output_sha256 == digest::sha256_hex("abcde"));
}

TEST_CASE("completion stream: text without any count is a chunk of unknown size") {
  const auto o = observe({tokens("a", "", -1), tokens("b", "", -1, "\"length\""), final_usage(12), kDone});
  CHECK(o.rules.empty());
  CHECK(!o.sample.received_tokens);
  CHECK(*o.sample.completion_tokens == 12);
  CHECK(o.sample.chunks.size() == 2);
  CHECK(!o.sample.chunks[0].tokens);
  CHECK(*o.sample.last_token_ns == 2'000'000);
}

TEST_CASE("completion stream: a count after uncounted text is not put on one chunk") {
  const auto o = observe({tokens("a", "", -1), tokens("b", "", 5), tokens("c", "", 7, "\"length\""), kDone});
  REQUIRE(o.sample.chunks.size() == 3);
  CHECK(!o.sample.chunks[1].tokens);
  CHECK(*o.sample.chunks[2].tokens == 2);
  CHECK(!o.sample.received_tokens);
}

TEST_CASE("completion stream: an event without text is a token event if the count rises") {
  const auto o = observe({tokens("", "", 1), tokens("\xC3\xA9", "", 2, "\"length\""), kDone});
  CHECK(*o.sample.first_token_ns == 1'000'000);
  CHECK(*o.sample.received_tokens == 2);
}

TEST_CASE("completion stream: role, finish, usage and [DONE] events are no tokens") {
  const auto o =
      observe({event(R"({"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]})"),
               event(R"({"choices":[{"delta":{"content":"x"}}],"usage":{"completion_tokens":1}})"),
               event(R"({"choices":[{"delta":{},"finish_reason":"length"}],"usage":{"completion_tokens":1}})"),
               final_usage(1), kDone});
  CHECK(o.rules.empty());
  CHECK(o.sample.chunks.size() == 1);
  CHECK(*o.sample.first_token_ns == 2'000'000);
  CHECK(*o.sample.last_token_ns == 2'000'000);
}

TEST_CASE("completion stream: every channel of a chat delta counts as tokens") {
  for (const char* delta : {R"({"content":"x"})", R"({"reasoning_content":"x"})", R"({"reasoning":"x"})",
                            R"({"tool_calls":[{"index":0}]})"}) {
    CAPTURE(delta);
    const auto o = observe({event(fmt::format(R"({{"choices":[{{"delta":{}}}]}})", delta))}, false);
    CHECK(o.sample.chunks.size() == 1);
  }
}

TEST_CASE("completion stream: events read together are one chunk") {
  const auto o = observe(
      {tokens("a", "1", 1) + tokens("b", "2,3", 3), tokens("c", "4", 4, "\"length\"") + final_usage(4) + kDone});
  CHECK((o.sample.chunks == std::vector<sample::Chunk>{{1'000'000, 3}, {2'000'000, 1}}));
  CHECK(*o.sample.received_tokens == 4);
}

TEST_CASE("completion stream: halves of a character in two events are text, and whole ones stay whole") {
  const auto o = observe({tokens(R"(a\ud83d)", "1", 1), tokens(R"(\ude00b)", "2", 2),
                          tokens(R"(\ud83d\ude00 \\ud83d)", "3", 3, "\"length\""), final_usage(3), kDone});
  CHECK(o.rules.empty());
  CHECK(*o.sample.received_tokens == 3);
  const auto text = observe({tokens(R"(a\uD83D)", "", 1), tokens(R"(\uDE00b)", "", 2),
                             tokens(R"(\ud83d\ude00 \\ud83d)", "", 3, "\"length\""), final_usage(3), kDone});
  CHECK(text.rules.empty());
  CHECK(text.sample.output_sha256 == digest::sha256_hex("a\xEF\xBF\xBD\xEF\xBF\xBD"
                                                        "b\xF0\x9F\x98\x80 \\ud83d"));
}

TEST_CASE("completion stream: what only looks like a half of a character is malformed as ever") {
  for (const char* bad : {R"({"a": "\ud83)", R"({"a": "\ud8zz"})", R"({"a": \ud83d})", R"({"a": "\ud83d)"})
    CHECK(observe({event(bad), kDone}).rules == RuleList{"load/malformed-event"});
}

TEST_CASE("completion stream: the first finish reason counts") {
  const auto o = observe({tokens("a", "1", 1, "\"max_tokens\""), tokens("", "", 1, "\"stop\""), kDone});
  CHECK(o.sample.finish_reason == "max_tokens");
}

TEST_CASE("completion stream: an error event in either form is load/server-error with its message") {
  for (const std::string& bad :
       {event(R"({"error":{"message":"CUDA out of memory","code":500}})"), event(R"({"error":"CUDA out of memory"})"),
        std::string("event: error\ndata: {\"message\":\"CUDA out of memory\"}\n\n"),
        std::string("event: error\ndata: CUDA out of memory\n\n")}) {
    CAPTURE(bad);
    const auto o = observe({tokens("a", "1", 1), bad, kDone});
    CHECK(o.rules == RuleList{"load/server-error"});
    CHECK(contains(o.messages, "CUDA out of memory"));
    CHECK(*o.sample.received_tokens == 1);
  }
}

TEST_CASE("completion stream: an end without [DONE] is a warning if all is there, a cut if not") {
  CHECK(observe({tokens("a", "1", 1, "\"length\""), final_usage(1)}).rules == RuleList{"load/no-done"});
  CHECK(observe({tokens("a", "1", 1)}).rules == RuleList{"load/stream-cut"});
  CHECK(observe({tokens("a", "1", -1, "\"length\"")}).rules == RuleList{"load/stream-cut"});
  CHECK(observe({tokens("a", "1", 1)}, false).rules.empty());  // the transport says what happened
}

TEST_CASE("completion stream: [DONE] without its blank line counts, and what follows [DONE] does not") {
  CHECK(observe({tokens("a", "1", 1, "\"length\""), "data: [DONE]"}).rules.empty());
  const auto o = observe({tokens("a", "1", 1, "\"length\""), kDone, tokens("b", "2", 2)});
  CHECK(o.rules.empty());
  CHECK(*o.sample.received_tokens == 1);
}

TEST_CASE("completion stream: what is no event stream, no JSON or counts backwards is said") {
  CHECK(observe({"<html>"}).rules == RuleList{"load/not-a-stream"});
  CHECK(observe({}).rules == RuleList{"load/not-a-stream"});
  CHECK(observe({event("{broken"), kDone}).rules == RuleList{"load/malformed-event"});
  CHECK(observe({event("[1,2]"), event("{broken"), kDone}).rules == RuleList{"load/malformed-event"});
  CHECK(observe({tokens("a", "", 5), tokens("b", "", 3), kDone}).rules == RuleList{"load/malformed-event"});
  CHECK(observe({tokens("a", "\"x\"", 1), kDone}).rules == RuleList{"load/malformed-event"});
  const auto huge = observe({"data: " + std::string(17 << 20, 'x')});
  CHECK(huge.rules == RuleList{"load/malformed-event"});
}

TEST_CASE("completion stream: hostile values neither crash nor count") {
  for (const char* json :
       {R"({"choices":5})", R"({"choices":[5]})", R"({"choices":[{"text":7,"delta":[],"finish_reason":{}}]})",
        R"({"choices":[{"text":"","token_ids":{}}]})", R"({"usage":[]})", R"({"usage":{"completion_tokens":-1}})",
        R"({"usage":{"completion_tokens":18446744073709551615,"prompt_tokens":1e30}})", R"({"choices":[null]})",
        R"({"usage":{"completion_tokens":"7","prompt_tokens_details":3}})"}) {
    CAPTURE(json);
    const auto o = observe({event(json), kDone});
    CHECK(!o.sample.completion_tokens);
    CHECK(o.sample.chunks.empty());
  }
}

TEST_CASE("error_message: finds the message in the usual forms and shortens it at a character") {
  CHECK(error_message(R"({"error":{"message":"m"}})") == "m");
  CHECK(error_message(R"({"error":"m"})") == "m");
  CHECK(error_message(R"({"message":"m"})") == "m");
  CHECK(error_message(R"({"detail":"m"})") == "m");
  CHECK(error_message(R"({"error":{"code":5}})") == R"({"code":5})");
  CHECK(error_message("{}").empty());
  CHECK(error_message("not json").empty());
  std::string text;
  for (int i = 0; i < 400; ++i) text += "\xC3\xA9";
  const std::string shown = error_message(R"({"error":"x)" + text + "\"}");
  CHECK(shown.size() < 310);
  CHECK(shown.ends_with("\xC3\xA9..."));
}

}  // namespace sweep::loadgen
