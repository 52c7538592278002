#include "orchestrator/loadgen/closed_loop.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/load.h"
#include "tests/support/catch.h"
#include "tests/support/fault_engine.h"

namespace sweep::loadgen {

namespace {

using std::chrono::milliseconds;
using test::Fault;
using test::FaultEngine;

LoadSpec spec_for(const std::string& url) {
  return {.job = "job",
          .base_url = url,
          .model = "embedded",
          .isl = 64,
          .osl = 32,
          .concurrency = 2,
          .requests = 6,
          .warmup_requests = 2,
          .prompt_tokens = {.begin = 10, .end = 1000},
          .seed = 1};
}

diag::Result<diag::Done> keep_nothing(const sample::Sample&) {
  return diag::Done{};
}

Measurement run(const LoadSpec& spec, const std::stop_token& stop = {}) {
  auto measurement = run_closed_loop(spec, keep_nothing, {}, stop);
  REQUIRE(measurement.has_value());
  return std::move(*measurement);
}

std::set<std::string> rules_of(const diag::Diagnostics& problems) {
  std::set<std::string> rules;
  for (const auto& problem : problems.items()) rules.emplace(diag::rule_info(problem.rule).slug);
  return rules;
}

using Rules = std::set<std::string>;

}  // namespace

TEST_CASE("closed loop: every request has exact lengths, warm-up first, and the window covers the measured ones") {
  const FaultEngine engine({});
  const Measurement m = run(spec_for(engine.url()));
  CHECK(m.problems.empty());
  CHECK(!m.cancelled);
  CHECK(m.not_sent == 0);
  REQUIRE(m.samples.size() == 8);
  for (size_t i = 0; i < m.samples.size(); ++i) {
    const sample::Sample& s = m.samples[i];
    CHECK(s.ok());
    CHECK(s.phase == (i < 2 ? sample::Phase::kWarmUp : sample::Phase::kMeasured));
    CHECK(s.status == 200);
    CHECK(*s.prompt_tokens == 64);
    CHECK(*s.completion_tokens == 32);
    CHECK(*s.received_tokens == 32);
    CHECK(*s.cached_tokens == 0);
    CHECK(s.finish_reason == "length");
    CHECK((s.sent_ns <= *s.first_byte_ns && *s.first_byte_ns <= *s.first_token_ns));
    CHECK((*s.first_token_ns <= *s.last_token_ns && *s.last_token_ns <= s.end_ns));
    CHECK(s.prompt_seed == prompt_seed(1, s.phase, s.sequence));
    CHECK(s.output_kind == sample::OutputKind::kTokenIds);
  }
  REQUIRE(m.window.has_value());
  const auto first_measured =
      std::min_element(m.samples.begin() + 2, m.samples.end(), [](auto& a, auto& b) { return a.sent_ns < b.sent_ns; });
  CHECK(m.window->start_ns == first_measured->sent_ns);
  CHECK(m.window->start_ns >= std::max(m.samples[0].end_ns, m.samples[1].end_ns));
}

TEST_CASE("closed loop: never more than the concurrency in flight, and each prompt is its own") {
  const FaultEngine engine({.step = milliseconds(1)});
  LoadSpec spec = spec_for(engine.url());
  spec.concurrency = 3;
  spec.requests = 12;
  int64_t most = 0;
  std::vector<Progress> seen;
  const auto measurement = run_closed_loop(spec, keep_nothing, [&](const Progress& p) {
    most = std::max(most, p.in_flight);
    seen.push_back(p);
  });
  REQUIRE(measurement.has_value());
  CHECK(most == 3);
  CHECK(seen.back().phase == sample::Phase::kMeasured);
  CHECK(seen.back().finished == 12);
  CHECK(seen.back().total == 12);
  CHECK(seen.back().output_tokens == 12 * 32);
  std::set<std::string> prompts;
  for (const auto& request : engine.server().requests())
    prompts.insert(nlohmann::json::parse(request.body)["prompt"].dump());
  CHECK(prompts.size() == 14);
  // At any send, at most two others had not ended.
  const auto& samples = measurement->samples;
  for (const auto& a : samples) {
    const auto overlapping = std::count_if(samples.begin(), samples.end(), [&](const auto& b) {
      return b.phase == a.phase && b.sent_ns < a.sent_ns && b.last_token_ns > a.sent_ns;
    });
    CHECK(overlapping <= 2);
  }
}

TEST_CASE("closed loop: the same seed sends the same bytes, and more warm-up changes no measured prompt") {
  const auto bodies = [](uint64_t seed, int64_t warmups) {
    const FaultEngine engine({});
    LoadSpec spec = spec_for(engine.url());
    spec.seed = seed;
    spec.warmup_requests = warmups;
    run(spec);
    std::set<std::string> result;
    for (const auto& request : engine.server().requests()) result.insert(request.body);
    return result;
  };
  const auto a = bodies(1, 0);
  CHECK(bodies(1, 0) == a);
  CHECK(bodies(2, 0) != a);
  const auto more = bodies(1, 3);
  CHECK(std::includes(more.begin(), more.end(), a.begin(), a.end()));
}

TEST_CASE("closed loop: each fault of a server is named, none is hidden, and every request has a sample") {
  struct Case {
    const char* fault;
    Rules rules;
    const char* message;
  };
  const std::vector<Case> cases{
      {"short", {"load/short-output"}, "request 3: 31 of 32 tokens"},
      {"long", {"load/long-output"}, "request 3: 33 tokens where 32 were asked for"},
      {"prompt-short", {"load/prompt-length"}, "request 3: 63 of 64 prompt tokens as the server counts"},
      {"reset", {"load/stream-cut", "load/gave-up"}, ""},
      {"early-close", {"load/stream-cut", "load/gave-up"}, ""},
      {"http-500", {"load/http-status"}, "request 3: HTTP status 500: engine core died"},
      {"http-429", {"load/http-status"}, "request 3: HTTP status 429: too many requests"},
      {"error-event", {"load/server-error"}, "request 3: the server reported an error: CUDA error"},
      {"error-body", {"load/server-error"}, "request 3: the server reported an error: KV cache exhausted"},
      {"html", {"load/not-a-stream"}, "text/html"},
      {"empty", {"load/no-tokens"}, "request 3: 0 of 32 tokens"},
      {"no-done", {"load/no-done"}, "request 3: the stream ended without [DONE]"},
      {"no-usage", {"load/no-usage"}, "request 3: the reply has no usage"},
      {"final-usage-only", {"load/received-unknown"}, "the received tokens of 8 requests"},
      {"miscount", {"load/count-mismatch", "load/long-output"}, "request 3: usage says 33 output tokens, 32 were"},
      {"stop-reason", {"load/finish-reason"}, "request 3: finish reason \"stop\", expected \"length\""},
      {"drip", {}, ""},
      {"acceptance-off", {}, ""},
      {"cached", {}, ""},
  };
  for (const Case& c : cases) {
    CAPTURE(c.fault);
    const FaultEngine engine({.fault = test::parse_fault(c.fault).value()});
    const Measurement m = run(spec_for(engine.url()));
    CHECK(rules_of(m.problems) == c.rules);
    std::string messages;
    for (const auto& problem : m.problems.items()) messages += problem.message + "\n";
    CHECK(contains(messages, c.message));
    const bool gave_up = c.rules.count("load/gave-up") != 0;
    CHECK(static_cast<int64_t>(m.samples.size()) + m.not_sent ==
          (gave_up ? m.not_sent + int64_t(m.samples.size()) : 8));
    // No request is sent twice.
    CHECK(engine.server().requests().size() == m.samples.size());
    for (const auto& s : m.samples) {
      const bool only_warnings =
          Rules(c.rules) == Rules{"load/no-done"} || Rules(c.rules) == Rules{"load/received-unknown"};
      CHECK(s.ok() == (c.rules.empty() || only_warnings));
    }
  }
}

TEST_CASE("closed loop: cached prompt tokens are recorded") {
  const FaultEngine engine({.fault = Fault::kCached});
  CHECK(*run(spec_for(engine.url())).samples.front().cached_tokens == 32);
}

TEST_CASE("closed loop: an engine that hangs costs a few timeouts, not one per request") {
  const FaultEngine engine({.fault = Fault::kHang});
  LoadSpec spec = spec_for(engine.url());
  spec.warmup_requests = 0;
  spec.requests = 100;
  spec.timeouts.first_byte = milliseconds(60);
  const Measurement m = run(spec);
  CHECK(rules_of(m.problems) == Rules{"load/timeout", "load/gave-up"});
  CHECK((m.samples.size() >= 3 && m.samples.size() <= 4));
  CHECK(m.not_sent == 100 - static_cast<int64_t>(m.samples.size()));
  for (const auto& s : m.samples) {
    CHECK(!s.ok());
    CHECK(!s.first_token_ns);
  }
}

TEST_CASE("closed loop: an engine that stalls is a timeout that keeps what arrived") {
  const FaultEngine engine({.fault = Fault::kStall});
  LoadSpec spec = spec_for(engine.url());
  spec.concurrency = 1;
  spec.requests = 1;
  spec.warmup_requests = 0;
  spec.timeouts.idle = milliseconds(60);
  const Measurement m = run(spec);
  CHECK(rules_of(m.problems) == Rules{"load/timeout"});
  REQUIRE(m.samples.size() == 1);
  CHECK(*m.samples[0].received_tokens >= 1);
  CHECK(contains(m.problems.items()[0].message, "of 32 tokens were received"));
}

TEST_CASE("closed loop: an engine that dies midway ends the load and keeps what was measured") {
  const FaultEngine engine({.fault = Fault::kDieMidway});
  LoadSpec spec = spec_for(engine.url());
  spec.concurrency = 1;
  spec.requests = 50;
  const Measurement m = run(spec);
  CHECK(rules_of(m.problems) == Rules{"load/stream-cut", "load/gave-up"});
  CHECK(m.samples.size() == 5);
  CHECK(std::count_if(m.samples.begin(), m.samples.end(), [](auto& s) { return s.ok(); }) == 2);
  CHECK(m.not_sent == 47);
}

TEST_CASE("closed loop: nothing listening is named, once per request that was tried") {
  std::string url;
  {
    const FaultEngine engine({});
    url = engine.url();
  }
  LoadSpec spec = spec_for(url);
  spec.give_up_after = 0;
  const Measurement m = run(spec);
  CHECK(rules_of(m.problems) == Rules{"http/connect-failed"});
  CHECK(m.samples.size() == 8);
  CHECK(m.problems.error_count() == 8);
}

TEST_CASE("closed loop: a stop request records what was in flight and returns the measurement so far") {
  const FaultEngine engine({.step = milliseconds(1)});
  std::stop_source stop;
  LoadSpec spec = spec_for(engine.url());
  spec.requests = 1000;
  const auto measurement = run_closed_loop(
      spec, keep_nothing,
      [&](const Progress& p) {
        if (p.phase == sample::Phase::kMeasured && p.finished == 3) stop.request_stop();
      },
      stop.get_token());
  REQUIRE(measurement.has_value());
  CHECK(measurement->cancelled);
  CHECK(rules_of(measurement->problems) == Rules{"load/cancelled"});
  const auto measured = static_cast<int64_t>(measurement->samples.size()) - 2;
  CHECK(measured + measurement->not_sent == 1000);
  CHECK(measured >= 4);
  CHECK(std::count_if(measurement->samples.begin(), measurement->samples.end(), [](auto& s) { return s.ok(); }) >= 5);
}

TEST_CASE("closed loop: a sink that fails ends the load with its reason") {
  const FaultEngine engine({});
  int taken = 0;
  const auto measurement =
      run_closed_loop(spec_for(engine.url()), [&](const sample::Sample&) -> diag::Result<diag::Done> {
        if (++taken == 3) return diag::fail(diag::rule::file_unwritable, "disk full");
        return diag::Done{};
      });
  REQUIRE(!measurement.has_value());
  CHECK(measurement.error().message == "disk full");
  CHECK(taken == 3);
}

TEST_CASE("closed loop: a spec that makes no sense is refused before anything is sent") {
  const FaultEngine engine({});
  LoadSpec spec = spec_for(engine.url());
  spec.osl = 0;
  CHECK(run_closed_loop(spec, keep_nothing).error().rule == diag::rule::load_bad_spec);
  CHECK(engine.server().requests().empty());
}

TEST_CASE("closed loop: a key that the server repeats is in no record and no message") {
  const std::string key = "sk-0123456789abcdefghij";
  const auto repeating = GENERATE(0, 1, 2, 3);
  CAPTURE(repeating);
  const test::HttpServer server([&](const test::HttpRequest& request, test::Reply& reply) {
    const std::string given = request.headers.at("authorization");
    switch (repeating) {
      case 0:
        return reply.whole(401, "application/json", R"({"error":{"message":"Incorrect key: )" + given + "\"}}");
      case 1:
        return reply.whole(200, "text/html", std::string(170, 'x') + given);  // an excerpt cuts it
      case 2:
        reply.head(200, "text/event-stream");
        reply.piece("data: {\"error\":\"" + std::string(275, 'x') + given + "\"}\n\n");
        return reply.end();
      default:
        reply.head(200, "text/event-stream");
        reply.piece(R"(data: {"choices":[{"text":"a","finish_reason":")" + given + "\"}]}\n\ndata: [DONE]\n\n");
        return reply.end();
    }
  });
  LoadSpec spec = spec_for(server.url());
  spec.access.bearer_token = key;
  const Measurement m = run(spec);
  CHECK(!m.problems.empty());
  std::string all;
  for (const auto& problem : m.problems.items()) all += problem.message + problem.help + "\n";
  for (const auto& s : m.samples) all += sample::to_json(s).dump() + "\n";
  for (size_t length = 5; length <= key.size(); ++length) CHECK(!contains(all, key.substr(0, length)));
}

TEST_CASE("closed loop: the key goes into the header and nowhere else") {
  const FaultEngine engine({.fault = Fault::kHttp500});
  LoadSpec spec = spec_for(engine.url());
  spec.access.bearer_token = "hunter2";
  const Measurement m = run(spec);
  CHECK(engine.server().requests().at(0).headers.at("authorization") == "Bearer hunter2");
  for (const auto& problem : m.problems.items()) CHECK(!contains(problem.message + problem.help, "hunter2"));
  for (const auto& s : m.samples) CHECK(!contains(sample::to_json(s).dump(), "hunter2"));
}

}  // namespace sweep::loadgen
