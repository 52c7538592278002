// `run` against a server that is already up: how it is reached, what is sent when, and what the bundle says of it.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "orchestrator/base/file.h"
#include "tests/integration/small_checkout.h"
#include "tests/support/catch.h"
#include "tests/support/chat_server.h"
#include "tests/support/fault_engine.h"
#include "tests/support/http_server.h"
#include "tests/support/tls.h"

using namespace sweep;
using namespace sweep::test;
namespace fs = std::filesystem;

namespace {

constexpr const char* kModel = "sweepctl/embedded-mla-8h";
constexpr const char* kKeyVariable = "SWEEPCTL_TEST_ENGINE_KEY";
const std::string kKey = "sk-0123456789-engine-key";

using Environment = std::vector<std::pair<std::string, std::string>>;

// `sweepctl run ENTRY --out OUT MORE...` with more variables.
Ran run_with(const SmallCheckout& checkout, std::vector<std::string> more, const Environment& variables) {
  std::vector<std::string> arguments = {"run", kEntry, "--out", checkout.out().string()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  exec::CommandSpec command = checkout.command(std::move(arguments));
  for (const auto& [name, value] : variables) command.environment.emplace_back(name, value);
  fs::remove(command.output);
  const auto status = exec::run(command, std::chrono::minutes(5), {}).value();
  return {.code = status.signal != 0 ? 128 + status.signal : status.code,
          .output = base::read_file(command.output).value()};
}

// In front of an engine: wants the key, and passes on what has it. One that repeats the key does so in every completion
// after the first, which is the probe before the load.
class Doorman {
 public:
  Doorman(const FaultEngine& engine, const TestAuthority& authority, bool repeats_the_key)
      : engine_(engine),
        repeats_the_key_(repeats_the_key),
        server_([this](const HttpRequest& request, Reply& reply) { answer(request, reply); }, authority.wires()) {}

  std::string url() const { return fmt::format("https://localhost:{}", server_.port()); }
  const HttpServer& server() const { return server_; }

 private:
  void answer(const HttpRequest& request, Reply& reply) {
    const auto found = request.headers.find("authorization");
    const std::string given = found == request.headers.end() ? "" : found->second;
    if (given != "Bearer " + kKey)
      return reply.whole(401, "application/json", R"({"error":{"message":"Incorrect API key: )" + given + "\"}}");
    if (repeats_the_key_ && request.target == "/server_info")
      return reply.whole(200, "application/json", R"({"version":"1","headers":")" + given + "\"}");
    if (repeats_the_key_ && request.target == "/v1/completions" && completions_++ > 0) {
      reply.head(200, "text/event-stream");
      reply.piece("data: {\"error\":{\"message\":\"no credit left for " + given + "\"}}\n\n");
      return reply.end();
    }
    std::string text = fmt::format("{} {} HTTP/1.1\r\n", request.method, request.target);
    for (const auto& [name, value] : request.headers) text += fmt::format("{}: {}\r\n", name, value);
    reply.connect_through(engine_.port(), text + "\r\n" + request.body);
  }

  const FaultEngine& engine_;
  bool repeats_the_key_;
  std::atomic<int> completions_ = 0;
  HttpServer server_;  // last: its threads use the rest
};

// Every file below the folder that holds the text.
std::vector<std::string> files_with(const fs::path& folder, const std::string& text) {
  std::vector<std::string> found;
  for (const auto& item : fs::recursive_directory_iterator(folder))
    if (item.is_regular_file() && contains(base::read_file(item.path()).value(), text))
      found.push_back(item.path().string());
  return found;
}

std::string ca_file(const SmallCheckout& checkout, const TestAuthority& authority) {
  const fs::path path = checkout.root() / "ca.pem";
  REQUIRE(base::write_file_atomic(path, authority.pem()).has_value());
  return path.string();
}

std::set<std::string> failed_rules(const nlohmann::json& result) {
  std::set<std::string> rules;
  for (const auto& condition : result["conditions"])
    if (condition["outcome"] == "failed") rules.insert(condition["rule"]);
  return rules;
}

std::vector<nlohmann::json> measured_requests(const SmallCheckout& checkout) {
  std::istringstream lines(checkout.text("requests.jsonl"));
  std::vector<nlohmann::json> requests;
  for (std::string line; std::getline(lines, line);)
    if (auto request = nlohmann::json::parse(line); request.value("phase", "") == "measured")
      requests.push_back(std::move(request));
  std::sort(requests.begin(), requests.end(), [](auto& a, auto& b) { return a["sequence"] < b["sequence"]; });
  return requests;
}

std::string aggregate_name(const SmallCheckout& checkout) {
  for (const auto& item : fs::directory_iterator(checkout.out()))
    if (item.path().filename().string().starts_with("agg_")) return item.path().filename();
  return {};
}

}  // namespace

TEST_CASE("engine url: a server with a key and an authority of its own is measured, and the key is nowhere") {
  const FaultEngine engine({.model = kModel});
  const TestAuthority authority;
  const Doorman door(engine, authority, false);
  const SmallCheckout checkout;
  const Ran ran = run_with(
      checkout,
      {"--engine-url", door.url() + "/v1/", "--api-key-env", kKeyVariable, "--ca-file", ca_file(checkout, authority)},
      {{kKeyVariable, kKey}});
  INFO(ran.output);
  CHECK(ran.code == 5);  // somebody else's server cannot prove its weights and kernels
  CHECK(failed_rules(checkout.json("result.json")) == std::set<std::string>{"judge/kernels", "judge/weights"});
  CHECK(checkout.json("result.json")["engine"]["base_url"] == door.url());
  // Counters and models were asked for with the key as well.
  std::set<std::string> targets;
  for (const HttpRequest& request : door.server().requests()) targets.insert(request.target);
  CHECK(targets == std::set<std::string>{"/health", "/v1/models", "/server_info", "/metrics", "/v1/completions"});
  CHECK(files_with(checkout.root(), kKey).empty());
  CHECK_FALSE(contains(ran.output, kKey));
}

TEST_CASE("engine url: a key that the server repeats stays out of the bundle and of every message") {
  const FaultEngine engine({.model = kModel});
  const TestAuthority authority;
  const Doorman door(engine, authority, true);
  const SmallCheckout checkout;
  const Ran ran = run_with(
      checkout, {"--engine-url", door.url(), "--api-key-env", kKeyVariable, "--ca-file", ca_file(checkout, authority)},
      {{kKeyVariable, kKey}});
  INFO(ran.output);
  CHECK(ran.code == 5);
  CHECK(contains(ran.output, "no credit left for Bearer (secret)"));
  CHECK(contains(checkout.text("requests.jsonl"), "no credit left for Bearer (secret)"));
  CHECK(checkout.json("engine.json")["server_info"]["headers"] == "Bearer (secret)");
  CHECK(files_with(checkout.root(), kKey).empty());
  CHECK_FALSE(contains(ran.output, kKey));
}

TEST_CASE("engine url: without key, with a wrong one, or without the authority, it says which") {
  const FaultEngine engine({.model = kModel});
  const TestAuthority authority;
  const Doorman door(engine, authority, false);
  const SmallCheckout checkout;
  const std::string ca = ca_file(checkout, authority);
  const Ran keyless = run_with(checkout, {"--engine-url", door.url(), "--ca-file", ca}, {});
  INFO(keyless.output);
  CHECK(keyless.code == 3);
  CHECK(contains(keyless.output, "[engine/not-authorised]"));
  CHECK(contains(keyless.output, "--api-key-env NAME"));

  const std::string wrong = "sk-some-other-key-entirely";
  const Ran refused =
      run_with(checkout, {"--resume", "--engine-url", door.url(), "--ca-file", ca, "--api-key-env", kKeyVariable},
               {{kKeyVariable, wrong}});
  INFO(refused.output);
  CHECK(refused.code == 3);
  CHECK(contains(refused.output, "the key is not the server's"));
  CHECK_FALSE(contains(refused.output, wrong));
  CHECK(files_with(checkout.root(), wrong).empty());

  const Ran unknown = run_with(checkout, {"--resume", "--engine-url", door.url(), "--api-key-env", kKeyVariable},
                               {{kKeyVariable, kKey}});
  INFO(unknown.output);
  CHECK(unknown.code == 3);
  CHECK(contains(unknown.output, "[http/tls]"));
  CHECK(contains(unknown.output, "--ca-file FILE"));
}

TEST_CASE("engine url: options that do not fit are wrong usage, and nothing of a secret is shown") {
  const SmallCheckout checkout;
  struct Case {
    std::vector<std::string> options;
    Environment variables;
    const char* text;
  };
  const std::vector<Case> cases{
      {{"--api-key-env", kKeyVariable}, {{kKeyVariable, kKey}}, "--api-key-env has no meaning without --engine-url"},
      {{"--ca-file", "ca.pem"}, {}, "--ca-file has no meaning without --engine-url"},
      {{"--api", "chat"}, {}, "--api chat has no meaning without --engine-url"},
      {{"--arrivals", "poisson"}, {}, "--arrivals has no meaning without --request-rate"},
      {{"--request-rate", "0"}, {}, "--request-rate"},
      {{"--request-rate", "nan"}, {}, "--request-rate"},
      {{"--request-timeout", "nan"}, {}, "\"nan\" is no number of seconds from 0.001 to 86400"},
      {{"--request-timeout", "0"}, {}, "--request-timeout"},
      {{"--ready-timeout", "1e9"}, {}, "--ready-timeout"},
      {{"--engine-url", "http://127.0.0.1:1", "--api-key-env", kKeyVariable}, {}, "is not set, or empty"},
      {{"--engine-url", "http://127.0.0.1:1", "--api-key-env", kKeyVariable},
       {{kKeyVariable, kKey + "\nX-Evil: 1"}},
       "[http/bad-key]"},
      {{"--engine-url", "http://me:" + kKey + "@127.0.0.1:1"}, {}, "holds a user, password or query"},
      {{"--engine-url", "http://127.0.0.1:1/?key=" + kKey}, {}, "holds a user, password or query"},
      {{"--engine-url", "ftp://127.0.0.1:1"}, {}, "[run/server-options]"},
      {{"--engine-url", "nonsense nonsense"}, {}, "[run/server-options]"},
  };
  for (const Case& c : cases) {
    const Ran ran = run_with(checkout, c.options, c.variables);
    INFO(ran.output);
    CHECK(ran.code == 2);
    CHECK(contains(ran.output, c.text));
    CHECK_FALSE(contains(ran.output, kKey));
    CHECK_FALSE(fs::exists(checkout.out()));
  }
  // A key on its way through a network without encryption is worth a warning; this machine is no network.
  const std::vector<std::string> dry = {"--dry-run", "--api-key-env", kKeyVariable, "--engine-url"};
  for (const auto& [url, warned] :
       {std::pair("http://engine.example:8000", true), std::pair("https://engine.example:8000", false),
        std::pair("http://localhost:8000", false)}) {
    std::vector<std::string> options = dry;
    options.emplace_back(url);
    const Ran ran = run_with(checkout, options, {{kKeyVariable, kKey}});
    INFO(ran.output);
    CHECK(ran.code == 0);
    CHECK(contains(ran.output, "[http/key-in-clear]") == warned);
  }
}

TEST_CASE("open loop: requests are sent on the schedule, and the bundle says so everywhere") {
  const FaultEngine engine({.model = kModel, .step = std::chrono::milliseconds(2)});
  const SmallCheckout checkout;
  const Ran ran = checkout.run({"--engine-url", engine.url(), "--request-rate", "50"});
  INFO(ran.output);
  CHECK(ran.code == 5);
  CHECK(contains(ran.output, "open loop, 50.0 requests/s (fixed arrivals)"));
  CHECK(contains(ran.output, "send delay"));
  const nlohmann::json result = checkout.json("result.json");
  CHECK(failed_rules(result) == std::set<std::string>{"judge/kernels", "judge/weights"});
  CHECK(result["workload"]["load"] == "open-loop");
  CHECK(result["workload"]["request_rate"] == 50.0);
  CHECK(result["workload"]["arrivals"] == "fixed");
  CHECK(result["latency_ms"]["send_delay"]["count"] == kSmallRequests);
  CHECK(result["workload"]["most_in_flight"] >= 1);
  CHECK(contains(result["scope"].dump(), "Open loop (fixed arrivals)"));
  CHECK(contains(checkout.text("summary.md"), "Send delay"));

  const std::vector<nlohmann::json> requests = measured_requests(checkout);
  REQUIRE(requests.size() == kSmallRequests);
  for (size_t i = 0; i < requests.size(); ++i) {
    CHECK(requests[i]["scheduled_ns"].get<int64_t>() - requests[0]["scheduled_ns"].get<int64_t>() ==
          static_cast<int64_t>(i) * 20'000'000);
    CHECK(requests[i]["sent_ns"] >= requests[i]["scheduled_ns"]);
  }
  // A dashboard must not file it under a concurrency.
  const nlohmann::json aggregate = checkout.json(aggregate_name(checkout));
  CHECK_FALSE(aggregate.contains("conc"));
  CHECK(aggregate["request_rate"] == 50.0);
  CHECK(contains(aggregate_name(checkout), "_rate50"));

  CHECK(checkout.sweepctl({"validate", checkout.out().string()}).code == 0);
  const Ran inspected = checkout.sweepctl({"inspect", "result", (checkout.out() / "result.json").string()});
  INFO(inspected.output);
  CHECK_FALSE(contains(inspected.output, "recomputed"));

  // Another rate is another plan.
  fs::remove(checkout.out() / "SHA256SUMS");
  const Ran other = checkout.run({"--resume", "--engine-url", engine.url(), "--request-rate", "60"});
  CHECK(contains(other.output, "[run/plan-changed]"));
}

TEST_CASE("open loop: the bundled engine, and arrivals by the seed") {
  const SmallCheckout checkout;
  const Ran ran = checkout.run({"--request-rate", "40", "--arrivals", "poisson"});
  INFO(ran.output);
  CHECK(ran.code == 0);
  const nlohmann::json result = checkout.json("result.json");
  CHECK(result["valid"] == true);
  CHECK(result["workload"]["arrivals"] == "poisson");
  const auto first = measured_requests(checkout);
  fs::remove_all(checkout.out());
  CHECK(checkout.run({"--request-rate", "40", "--arrivals", "poisson"}).code == 0);
  const auto second = measured_requests(checkout);
  const auto gap = [](const std::vector<nlohmann::json>& requests, size_t i) {
    return requests.at(i)["scheduled_ns"].get<int64_t>() - requests.at(0)["scheduled_ns"].get<int64_t>();
  };
  for (size_t i = 1; i < kSmallRequests; ++i) CHECK(gap(first, i) == gap(second, i));
}

TEST_CASE("open loop: refused for an entry that is measured at a fixed concurrency") {
  const SmallCheckout checkout;
  checkout.edit("matrix/embedded.yaml", "research-only: true", "research-only: false");
  checkout.edit("matrix/embedded.yaml", "acceptance: { source: explicit, length: 5.7 }",
                "acceptance: { source: measured }");
  for (const char* line : {"  authorization:", "  deviations:", "    - \"synthetic", "    - \"explicit"}) {
    const std::string matrix = base::read_file(checkout.root() / "matrix/embedded.yaml").value();
    const size_t at = matrix.find(line);
    REQUIRE(at != std::string::npos);
    checkout.edit("matrix/embedded.yaml", matrix.substr(at, matrix.find('\n', at) + 1 - at), "");
  }
  const Ran ran = checkout.run({"--request-rate", "50"});
  INFO(ran.output);
  CHECK(ran.code == 1);
  CHECK(contains(ran.output, "[run/closed-loop-only]"));
  CHECK_FALSE(checkout.has("result.json"));
}

TEST_CASE("summary: the raw requests give the figures of the result, bit for bit") {
  const SmallCheckout checkout;
  REQUIRE(checkout.run({"--request-rate", "40"}).code == 0);
  const nlohmann::json result = checkout.json("result.json");
  const Ran again = checkout.sweepctl({"summary", (checkout.out() / "requests.jsonl").string(), "--format", "json"});
  INFO(again.output);
  REQUIRE(again.code == 0);
  const nlohmann::json figures = nlohmann::json::parse(again.output);
  // Written with as many digits as tell doubles apart: equal text is equal bits.
  CHECK(figures["latency_ms"].dump() == result["latency_ms"].dump());
  CHECK(figures["throughput"].dump() == result["throughput"].dump());
  for (const auto& [key, value] : figures["workload"].items()) CHECK(value.dump() == result["workload"][key].dump());
  CHECK(figures["problems"].empty());

  // The same table for people, from a folder whose run never came to a result too.
  const Ran table = checkout.sweepctl({"summary", (checkout.out() / "requests.jsonl").string()});
  CHECK(contains(table.output, "4 measured (0 failed), 1 before them to warm up"));
  const std::string finished = checkout.sweepctl({"summary", checkout.out().string()}).output;
  for (const char* row :
       {"  TTFT ", "  TPOT ", "  ITL (per token) ", "  inter-chunk (per step) ", "  E2E ", "  send delay "}) {
    const size_t at = table.output.find(row);
    REQUIRE(at != std::string::npos);
    CHECK(contains(finished, table.output.substr(at, table.output.find('\n', at) - at)));
  }
  fs::remove(checkout.out() / "result.json");
  CHECK(checkout.sweepctl({"summary", checkout.out().string()}).output == table.output);
  CHECK(contains(checkout.sweepctl({"summary", checkout.out().string(), "--markdown"}).output, "| TTFT |"));
}

TEST_CASE("summary: failed requests are counted by reason, and a repeated request is refused") {
  const FaultEngine engine({.fault = Fault::kShort, .model = kModel});
  const SmallCheckout checkout;
  REQUIRE(checkout.run({"--engine-url", engine.url()}).code == 5);
  const std::string path = (checkout.out() / "requests.jsonl").string();
  const Ran ran = checkout.sweepctl({"summary", path});
  INFO(ran.output);
  CHECK(contains(ran.output, "4 measured (4 failed)"));
  CHECK(contains(ran.output, "4 requests: load/short-output"));
  const std::string records = base::read_file(path).value();
  const std::string last = records.substr(records.rfind('\n', records.size() - 2) + 1);
  REQUIRE(base::write_file_atomic(path, records + last).has_value());
  const Ran twice = checkout.sweepctl({"summary", path});
  CHECK(twice.code == 1);
  CHECK(contains(twice.output, "[load/repeated-request]"));
}

TEST_CASE("chat: prompts of exact length for a server that takes text, by the tokenizer of the verified weights") {
  const SmallCheckout checkout;
  const std::string model = checkout.use_model_with_words("wo");
  const ChatServer server({.model = kModel});
  const Ran ran = checkout.run({"--engine-url", server.url(), "--api", "chat", "--weights", model});
  INFO(ran.output);
  CHECK(ran.code == 5);
  const nlohmann::json result = checkout.json("result.json");
  const auto failed = failed_rules(result);
  CHECK_FALSE(failed.contains("judge/lengths"));
  CHECK_FALSE(failed.contains("judge/requests"));
  CHECK(failed.contains("judge/acceptance"));  // it has no counters
  CHECK(result["workload"]["api"] == "chat");
  CHECK(result["workload"]["template_tokens"] == 7);
  CHECK(result["workload"]["prompt_tokens"] == kSmallIsl * kSmallRequests);
  CHECK(contains(result["scope"].dump(), "7 tokens of each prompt are the server's template"));
  CHECK(checkout.sweepctl({"validate", checkout.out().string()}).code == 0);
}

TEST_CASE("chat: a tokenizer without words says what to do instead") {
  const ChatServer server({.model = kModel});
  const SmallCheckout checkout;
  const Ran ran = checkout.run({"--engine-url", server.url(), "--api", "chat"});
  INFO(ran.output);
  CHECK(ran.code == 1);
  CHECK(contains(ran.output, "[run/no-words]"));
}
