// Streams recorded from servers (reference material): latencies, counts and findings must come out as recorded.
#include "orchestrator/loadgen/recorded_stream.h"

#include <fmt/format.h>

#include "orchestrator/base/file.h"
#include "orchestrator/loadgen/completion_stream.h"
#include "orchestrator/sample/metrics.h"
#include "tests/support/catch.h"
#include "tests/support/test_dir.h"

namespace sweep::loadgen {

namespace {

struct Replayed {
  RecordedStream stream;
  sample::Sample sample;
  std::vector<std::string> rules;
};

Replayed replayed(std::string_view text, const AskedLengths& asked = {}) {
  Replayed result;
  auto stream = replay(text, "stream.jsonl", asked);
  INFO((stream ? std::string() : stream.error().message));
  REQUIRE(stream.has_value());
  result.stream = std::move(*stream);
  result.sample = result.stream.sample;
  for (const auto& problem : result.stream.problems) result.rules.emplace_back(diag::rule_info(problem.rule).slug);
  return result;
}

Replayed replay_file(const std::filesystem::path& path) {
  return replayed(base::read_file(path).value());
}

struct Refused {
  uint32_t line = 0;
  std::string message;
};
Refused refused(std::string_view text) {
  const auto stream = replay(text, "stream.jsonl", {});
  if (stream) return {0, "accepted"};
  CHECK(diag::rule_info(stream.error().rule).slug == "load/malformed-capture");
  CHECK(stream.error().where->file == "stream.jsonl");
  return {stream.error().where->line, stream.error().message};
}

constexpr const char* kRequest = "{\"request\": {\"isl\": 8, \"osl\": 3}}\n";
constexpr const char* kEnd = "{\"t_ms\": 99, \"eof\": true}\n";

// One read: an event with so many tokens counted so far.
std::string read(double t_ms, int counted, std::string_view text = "x", std::string_view reason = "null") {
  return fmt::format(
      "{{\"t_ms\": {}, \"data\": \"data: {{\\\"choices\\\":[{{\\\"text\\\":\\\"{}\\\",\\\"finish_reason\\\":{}}}],"
      "\\\"usage\\\":{{\\\"prompt_tokens\\\":8,\\\"completion_tokens\\\":{}}}}}\\n\\n\"}}\n",
      t_ms, text, reason, counted);
}

std::string done(double t_ms) {
  return fmt::format("{{\"t_ms\": {}, \"data\": \"data: [DONE]\\n\\n\"}}\n", t_ms);
}

double mean_of(const std::vector<double>& values) {
  return stats::describe(values)->mean.value_or(-1);
}

}  // namespace

TEST_CASE("recorded streams: latencies and findings are the recorded ones") {
  const auto data = test::reference_data();
  if (data.empty()) SWEEP_SKIP("no reference data beside the checkout");
  const auto cases = data / "cases_from_reports";
  struct Expected {
    const char* file;
    double ttft, tpot, gap, itl;
    int64_t tokens;
    size_t events;
  };
  for (const Expected& e : {Expected{"sse_multi_token_events.jsonl", 412.0, 1.052174, 6.05, 1.052174, 24, 5},
                            Expected{"sse_role_first.jsonl", 510.0, 11.0, 11.0, 11.0, 4, 4},
                            Expected{"sse_usage_and_done_late.jsonl", 100.0, 9.0, 9.0, 9.0, 3, 3}}) {
    CAPTURE(e.file);
    const Replayed r = replay_file(cases / e.file);
    CHECK(r.rules.empty());
    CHECK(*sample::ttft_ms(r.sample) == Approx(e.ttft).margin(0.001));
    CHECK(*sample::tpot_ms(r.sample) == Approx(e.tpot).margin(0.001));
    CHECK(mean_of(sample::inter_chunk_ms(r.sample)) == Approx(e.gap).margin(0.001));
    CHECK(mean_of(sample::itl_ms(r.sample)) == Approx(e.itl).margin(0.001));
    CHECK(*r.sample.completion_tokens == e.tokens);
    CHECK(r.stream.token_events == static_cast<int64_t>(e.events));
  }
}

TEST_CASE("recorded streams: a reply without tokens has failed and has no TTFT") {
  const auto data = test::reference_data();
  if (data.empty()) SWEEP_SKIP("no reference data beside the checkout");
  const Replayed r = replay_file(data / "cases_from_reports" / "sse_ok_but_empty.jsonl");
  CHECK(r.rules == std::vector<std::string>{"load/no-tokens"});
  CHECK(!sample::ttft_ms(r.sample));
}

TEST_CASE("recorded streams: wrong prompt and output lengths are both named") {
  const auto data = test::reference_data();
  if (data.empty()) SWEEP_SKIP("no reference data beside the checkout");
  const Replayed r = replay_file(data / "cases_from_reports" / "sse_stopped_early.jsonl");
  CHECK(r.rules == std::vector<std::string>{"load/prompt-length", "load/short-output"});
  CHECK(*r.sample.prompt_tokens == 8190);
  CHECK(*r.sample.completion_tokens == 198);
  CHECK(r.sample.finish_reason == "stop");
}

TEST_CASE(
    "recorded streams: 32 tokens in 7 events, and the ending of an engine that says \"stop\" after \"max_tokens\"") {
  const auto data = test::reference_data();
  if (data.empty()) SWEEP_SKIP("no reference data beside the checkout");
  for (const char* name : {"completions_stream.sse", "completions_stream_atom.sse"}) {
    CAPTURE(name);
    const std::string text = base::read_file(data / "engines" / name).value();
    const Replayed whole = replayed(text, {.isl = 64, .osl = 32});
    CHECK(whole.rules.empty());
    CHECK_FALSE(whole.stream.has_times);
    CHECK(whole.stream.token_events == 7);
    CHECK(*whole.sample.completion_tokens == 32);
    sample::Sample sample;
    CompletionStream stream(sample);
    int64_t ns = 0;
    for (const char c : text) stream.receive({&c, 1}, ++ns);
    stream.finish(true);
    CHECK(stream.problems().empty());
    CHECK(check_lengths(sample, {.isl = 64, .osl = 32}).empty());
    CHECK(sample.chunks.size() == 7);
    CHECK(*sample.completion_tokens == 32);
  }
}

TEST_CASE("recorded streams: what the recording does not ask for is not held against the reply") {
  const std::string reads = read(1, 1) + read(2, 2) + read(3, 4, "x", "\\\"stop\\\"") + done(4) + kEnd;
  CHECK(replayed("{\"request\": {}}\n" + reads).rules.empty());
  CHECK(replayed("{\"request\": {\"isl\": null}}\n" + reads, {.isl = 9, .osl = 5}).rules ==
        std::vector<std::string>{"load/prompt-length", "load/short-output"});
  CHECK(replayed(kRequest + reads).rules == std::vector<std::string>{"load/long-output"});
}

TEST_CASE("recorded streams: events of one read and of one moment are counted, and have no time between them") {
  const Replayed r = replayed(std::string(kRequest) + read(10, 1) + read(10, 2) + read(14, 3, "x", "\\\"length\\\"") +
                              done(20) + kEnd);
  CHECK(r.rules.empty());
  CHECK(r.stream.token_events == 3);
  CHECK(r.stream.reads == 4);
  CHECK(*sample::tpot_ms(r.sample) == Approx(2));
  CHECK(sample::itl_ms(r.sample) == std::vector<double>{0, 4});
}

TEST_CASE("recorded streams: bytes in hexadecimal may split anything") {
  std::string text = kRequest;
  double t_ms = 0;
  for (const char c :
       std::string_view("data: {\"choices\":[{\"text\":\"\xC3\xA9\",\"finish_reason\":\"length\"}],\"usage\":"
                        "{\"prompt_tokens\":8,\"completion_tokens\":3}}\r\n\r\ndata: [DONE]\r\n\r\n"))
    text += fmt::format("{{\"t_ms\": {}, \"hex\": \"{:02x}\"}}\n", t_ms += 0.5, static_cast<unsigned char>(c));
  const Replayed r = replayed(text + kEnd);
  CHECK(r.rules.empty());
  CHECK(r.stream.token_events == 1);
}

TEST_CASE("recorded streams: a refusal of HTTP is no stream") {
  const Replayed r =
      replayed("{\"request\": {\"http_status\": 429}}\n{\"t_ms\": 3, \"data\": \"slow down\"}\n" + std::string(kEnd));
  CHECK(r.rules == std::vector<std::string>{"load/http-status"});
  CHECK_FALSE(sample::ttft_ms(r.sample).has_value());
}

TEST_CASE("recorded streams: what is no recording is refused at its line") {
  const std::string good = kRequest + read(1, 1);
  CHECK(contains(refused(good).message, "cut"));
  CHECK(refused(good + "{\"t_ms\": 2, \"da").line == 3);
  CHECK(refused(good + "[]\n").line == 3);
  CHECK(contains(refused(good + "{\"t_ms\": 0.5, \"eof\": true}\n").message, "backwards, from 1 to 0.5"));
  for (const char* time : {"-1", "1e300", "\"1\"", "null", "true"}) {
    CAPTURE(time);
    CHECK(contains(refused(fmt::format("{}{{\"t_ms\": {}, \"data\": \"\"}}\n", kRequest, time)).message, "no time"));
  }
  CHECK(contains(refused(good + kEnd + kEnd).message, "more after"));
  CHECK(contains(refused(good + "{\"t_ms\": 2}\n").message, "either"));
  CHECK(contains(refused(good + "{\"t_ms\": 2, \"data\": \"\", \"hex\": \"\"}\n").message, "either"));
  CHECK(contains(refused(good + "{\"t_ms\": 2, \"data\": 5}\n").message, "no text"));
  CHECK(contains(refused(good + "{\"t_ms\": 2, \"hex\": \"0\"}\n").message, "pairs"));
  CHECK(contains(refused(good + "{\"t_ms\": 2, \"hex\": \"0g\"}\n").message, "pairs"));
  CHECK(contains(refused(good + "{\"t_ms\": 2, \"eof\": false}\n").message, "eof"));
  CHECK(contains(refused("{\"t_ms\": 2}\n").message, "first line"));
  CHECK(contains(refused("{\"request\": 5}\n").message, "no object"));
  CHECK(contains(refused("{\"request\": {\"isl\": -1}}\n").message, "\"isl\""));
  CHECK(contains(refused("{\"request\": {\"osl\": 1e30}}\n").message, "\"osl\""));
  CHECK(contains(refused("{\"request\": {\"http_status\": 9}}\n").message, "http_status"));
  CHECK(contains(refused("{\"request\": " + std::string(1 << 20, '[') + "\n").message, "deeper"));
}

TEST_CASE(
    "recorded streams: raw bytes that are no stream, and an event that nests without end, are problems of the reply") {
  CHECK(replayed("").rules == std::vector<std::string>{"load/not-a-stream"});
  CHECK(replayed("<html>").rules == std::vector<std::string>{"load/not-a-stream"});
  const std::string deep = "data: {\"choices\":[{\"delta\":{\"tool_calls\":" + std::string(1 << 20, '[');
  CHECK(replayed(deep + "\n\n").rules == std::vector<std::string>{"load/malformed-event"});
}

}  // namespace sweep::loadgen
