// @copilotkit/aimock: chat completions as their first vendor streams them. A first event with the role alone, a finish
// event of its own, the usage in an event without choices, [DONE]; replies, timing and faults by fixtures.
#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "orchestrator/diag/rules/http.h"
#include "orchestrator/diag/rules/load.h"
#include "orchestrator/digest/sha256.h"
#include "orchestrator/http/client.h"
#include "orchestrator/loadgen/closed_loop.h"
#include "orchestrator/loadgen/open_loop.h"
#include "orchestrator/sample/metrics.h"
#include "tests/conformance/npm_server.h"
#include "tests/integration/small_checkout.h"
#include "tests/support/catch.h"

using namespace sweep;
using namespace sweep::test;
using nlohmann::json;

namespace {

const NpmPackage kAimock{
    .name = "@copilotkit/aimock",
    .version = "1.43.0",
    .integrity = "sha512-V8D8cjSMtAR4rHaD2ulp3DR/ZguXQjDNOqwKDNvjb/OJL/KR1I0SDf5xpRCd+TYKjhmf9fM8Xpg3QBKPmV9Kmw==",
    .program = "dist/cli.js"};

constexpr int64_t kPrompt = 24;
constexpr int64_t kOutput = 9;
const std::string kContent =
    "one two thr\xC3\xA9"
    "e \xF0\x9F\x98\x80 five six seven eight nine";

// A reply of exactly the lengths that are asked for.
json good_reply() {
  return {{"content", kContent},
          {"finishReason", "length"},
          {"usage", {{"prompt_tokens", kPrompt}, {"completion_tokens", kOutput}}}};
}

json fixture(json response, json more = json::object()) {
  json one = {{"match", {{"userMessage", "alpha"}}}, {"response", std::move(response)}, {"chunkSize", 4}};
  one.update(more);
  return one;
}

NpmServer serve(const Installed& aimock, const json& fixture, std::map<std::string, std::string> environment = {},
                std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {"-p", "{port}", "-f", "fixtures.json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return {aimock.program,
          {.arguments = std::move(arguments),
           .environment = std::move(environment),
           .files = {{"fixtures.json", json{{"fixtures", json::array({fixture})}}.dump()}}}};
}

loadgen::LoadSpec spec_for(const NpmServer& server, int64_t requests = 4) {
  return {.job = "job",
          .base_url = server.url(),
          .api = loadgen::Api::kChat,
          .model = "m",
          .isl = kPrompt,
          .osl = kOutput,
          .concurrency = 4,
          .requests = requests,
          .prompt_words = {"alpha", "alphabet"},
          .seed = 1,
          .give_up_after = 0};
}

diag::Result<diag::Done> keep_nothing(const sample::Sample&) {
  return diag::Done{};
}

loadgen::Measurement run(const loadgen::LoadSpec& spec) {
  auto measurement = loadgen::run_closed_loop(spec, keep_nothing);
  REQUIRE(measurement.has_value());
  return std::move(*measurement);
}

// How often the server was asked, by its own journal.
size_t asked(const NpmServer& server) {
  const auto reply = http::get({.url = server.url() + "/__aimock/journal"});
  REQUIRE(reply.has_value());
  size_t count = 0;
  const json journal = json::parse(reply->body, nullptr, false);
  for (const json& entry : journal.is_array() ? journal : journal.value("entries", json::array()))
    if (entry.value("path", "") == "/v1/chat/completions") ++count;
  return count;
}

// Every request has exactly this problem.
void check_only(const loadgen::Measurement& m, diag::RuleId rule) {
  REQUIRE(!m.problems.empty());
  for (const auto& problem : m.problems.items()) {
    INFO(problem.message);
    CHECK(diag::rule_info(problem.rule).slug == diag::rule_info(rule).slug);
  }
  for (const sample::Sample& s : m.samples) CHECK_FALSE(s.ok());
}

}  // namespace

TEST_CASE("aimock: text, finish reason and usage of every stream are what the server was told to send") {
  const Installed aimock = install(kAimock);
  if (aimock.program.empty()) SWEEP_SKIP(aimock.why_not);
  const NpmServer server = serve(aimock, fixture(good_reply()));
  const loadgen::Measurement m = run(spec_for(server, 64));
  REQUIRE(m.samples.size() == 64);
  for (const sample::Sample& s : m.samples) {
    CHECK(s.ok());
    CHECK(s.finish_reason == "length");
    CHECK(s.prompt_tokens == kPrompt);
    CHECK(s.completion_tokens == kOutput);
    CHECK(s.output_kind == sample::OutputKind::kText);
    CHECK(s.output_sha256 == digest::sha256_hex(kContent));
    CHECK_FALSE(s.received_tokens);  // it counts once, at the end: events are not tokens
    CHECK(s.chunks.size() <= (kContent.size() + 3) / 4);
    CHECK(sample::itl_ms(s).empty());
  }
  REQUIRE(m.problems.items().size() == 1);
  CHECK(m.problems.items()[0].rule == diag::rule::load_received_unknown);
  CHECK(asked(server) == 64);
}

TEST_CASE("aimock: the time to the first token and to the end is at least what the server waits") {
  const Installed aimock = install(kAimock);
  if (aimock.program.empty()) SWEEP_SKIP(aimock.why_not);
  const NpmServer server = serve(aimock, fixture(good_reply(), {{"streamingProfile", {{"ttft", 150}, {"tps", 100}}}}));
  const loadgen::Measurement m = run(spec_for(server));
  for (const sample::Sample& s : m.samples) {
    CHECK(s.ok());
    // The role event waits for the 150 ms and is no token; the first token waits for 10 more. Counted from the request:
    // whatever comes late here only makes it longer. Timers of the server's runtime may fire a millisecond early.
    CHECK(sample::ttft_ms(s).value() >= 149 + 9);
    CHECK(*s.first_token_ns > *s.first_byte_ns);
    CHECK(s.chunks.size() == 11);
    const double tpot = sample::tpot_ms(s).value();
    CHECK(sample::ttft_ms(s).value() + (kOutput - 1) * tpot == Approx(sample::e2e_ms(s).value()));
    CHECK(sample::e2e_ms(s).value() >= 149 + 11 * 9);
  }
}

TEST_CASE("aimock: requests are sent on their schedule while earlier ones are still answered") {
  const Installed aimock = install(kAimock);
  if (aimock.program.empty()) SWEEP_SKIP(aimock.why_not);
  const NpmServer server = serve(aimock, fixture(good_reply(), {{"streamingProfile", {{"ttft", 300}, {"tps", 1000}}}}));
  const auto m = loadgen::run_open_loop(spec_for(server, 10), {.per_second = 100}, keep_nothing);
  REQUIRE(m.has_value());
  REQUIRE(m->samples.size() == 10);
  int64_t last_sent = 0;
  int64_t first_token = INT64_MAX;
  for (const sample::Sample& s : m->samples) {
    CHECK(s.ok());
    CHECK(s.sent_ns >= s.scheduled_ns);
    last_sent = std::max(last_sent, s.scheduled_ns);
    first_token = std::min(first_token, *s.first_token_ns);
  }
  CHECK(last_sent < first_token);  // all ten were due within 90 ms
}

TEST_CASE("aimock: lengths other than those asked for are refused, each with its reason") {
  const Installed aimock = install(kAimock);
  if (aimock.program.empty()) SWEEP_SKIP(aimock.why_not);
  struct Case {
    const char* field;
    json value;
    diag::RuleId rule;
  };
  const std::vector<Case> cases{
      {"prompt_tokens", kPrompt - 1, diag::rule::load_prompt_length},
      {"completion_tokens", kOutput - 1, diag::rule::load_short_output},
      {"completion_tokens", kOutput + 1, diag::rule::load_long_output},
  };
  for (const Case& c : cases) {
    json reply = good_reply();
    reply["usage"][c.field] = c.value;
    const NpmServer server = serve(aimock, fixture(reply));
    check_only(run(spec_for(server)), c.rule);
  }
  json stopped = good_reply();
  stopped["finishReason"] = "stop";
  const NpmServer server = serve(aimock, fixture(stopped));
  check_only(run(spec_for(server)), diag::rule::load_finish_reason);
}

TEST_CASE("aimock: a stream that is cut is kept as far as it came, and not asked for again") {
  const Installed aimock = install(kAimock);
  if (aimock.program.empty()) SWEEP_SKIP(aimock.why_not);
  const NpmServer server = serve(aimock, fixture(good_reply(), {{"latency", 10}, {"truncateAfterChunks", 5}}));
  const loadgen::Measurement m = run(spec_for(server));
  check_only(m, diag::rule::load_stream_cut);
  for (const sample::Sample& s : m.samples) {
    CHECK(s.status == 200);
    CHECK_FALSE(s.chunks.empty());
    CHECK(s.output_sha256 != digest::sha256_hex(kContent));
    CHECK_FALSE(s.completion_tokens);
  }
  CHECK(asked(server) == 4);
}

TEST_CASE("aimock: a refusal is recorded with the server's words, and Retry-After is no invitation") {
  const Installed aimock = install(kAimock);
  if (aimock.program.empty()) SWEEP_SKIP(aimock.why_not);
  const NpmServer server = serve(
      aimock, fixture({{"error", {{"message", "too much for today"}, {"type", "rate_limit_error"}}}, {"status", 429}}));
  const loadgen::Measurement m = run(spec_for(server));
  check_only(m, diag::rule::load_http_status);
  for (const auto& problem : m.problems.items()) CHECK(contains(problem.message, "429: too much for today"));
  CHECK(asked(server) == 4);
}

TEST_CASE("aimock: connections that it drops and replies that it garbles are failures, never tokens") {
  const Installed aimock = install(kAimock);
  if (aimock.program.empty()) SWEEP_SKIP(aimock.why_not);
  {
    const NpmServer server = serve(aimock, fixture(good_reply()), {}, {"--chaos-disconnect", "1"});
    const loadgen::Measurement m = run(spec_for(server));
    check_only(m, diag::rule::load_stream_cut);
    for (const sample::Sample& s : m.samples) CHECK(s.chunks.empty());
  }
  const NpmServer server = serve(aimock, fixture(good_reply()), {}, {"--chaos-malformed", "1"});
  const loadgen::Measurement m = run(spec_for(server));
  for (const sample::Sample& s : m.samples) {
    CHECK_FALSE(s.ok());
    CHECK(s.chunks.empty());
  }
}

TEST_CASE("aimock: a server that wants a key gets it, and says so without it") {
  const Installed aimock = install(kAimock);
  if (aimock.program.empty()) SWEEP_SKIP(aimock.why_not);
  const std::string key = "sk-aimock-0123456789";
  const NpmServer server = serve(aimock, fixture(good_reply()), {{"AIMOCK_API_KEYS", key}});
  loadgen::LoadSpec spec = spec_for(server);
  check_only(run(spec), diag::rule::load_http_status);
  spec.access.bearer_token = key;
  for (const sample::Sample& s : run(spec).samples) CHECK(s.ok());
}

TEST_CASE("aimock: `run --engine-url --api chat` measures it, with every request of the exact lengths") {
  const Installed aimock = install(kAimock);
  if (aimock.program.empty()) SWEEP_SKIP(aimock.why_not);
  const SmallCheckout checkout;
  const std::string model = checkout.use_model_with_words("alpha");
  json reply = good_reply();
  reply["usage"] = {{"prompt_tokens", kSmallIsl}, {"completion_tokens", kSmallOsl}};
  json one = fixture(reply);
  one["match"]["model"] = "sweepctl/embedded-mla-8h";
  const std::string key = "sk-aimock-0123456789";
  const NpmServer server = serve(aimock, one, {{"AIMOCK_API_KEYS", key}});
  exec::CommandSpec command =
      checkout.command({"run", kEntry, "--out", checkout.out().string(), "--engine-url", server.url(), "--api", "chat",
                        "--weights", model, "--api-key-env", "CONFORMANCE_KEY"});
  command.environment.emplace_back("CONFORMANCE_KEY", key);
  const auto status = exec::run(command, std::chrono::minutes(3), {}).value();
  INFO(base::read_file(command.output).value());
  CHECK(status.code == 5);  // no counters of acceptance, no proof of weights and kernels; the requests are right
  const json result = checkout.json("result.json");
  for (const json& condition : result["conditions"]) {
    INFO(condition.dump());
    if (condition["rule"] == "judge/requests" || condition["rule"] == "judge/sample-count")
      CHECK(condition["outcome"] == "passed");
  }
  CHECK(result["workload"]["failed_requests"] == 0);
  CHECK(result["workload"]["prompt_tokens"] == kSmallIsl * kSmallRequests);
  CHECK(result["latency_ms"]["ttft"]["count"] == kSmallRequests);
}
