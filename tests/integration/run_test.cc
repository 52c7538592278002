// The whole line with the embedded engine, and against servers that misbehave.
#include <fmt/format.h>
#include <csignal>
#include <set>
#include <sstream>

#include "orchestrator/base/file.h"
#include "orchestrator/digest/sha256.h"
#include "tests/integration/small_checkout.h"
#include "tests/support/catch.h"
#include "tests/support/fault_engine.h"

using namespace sweep;
using namespace sweep::test;
using namespace std::chrono_literals;

namespace {

std::set<std::string> failed_rules(const nlohmann::json& result) {
  std::set<std::string> rules;
  for (const auto& condition : result["conditions"])
    if (condition["outcome"] == "failed") rules.insert(condition["rule"]);
  return rules;
}

}  // namespace

TEST_CASE("run: one command verifies, builds, gates, serves, measures, judges and bundles") {
  const SmallCheckout checkout;
  const Ran ran = checkout.run();
  INFO(ran.output);
  REQUIRE(ran.code == 0);
  CHECK(contains(ran.output, "VALID"));
  CHECK(contains(ran.output, "RESEARCH ONLY"));
  CHECK(contains(ran.output, "never comparable with a full model"));

  const nlohmann::json result = checkout.json("result.json");
  CHECK(result["valid"] == true);
  CHECK(result["research_only"] == true);
  CHECK(result["workload"]["isl"] == kSmallIsl);
  CHECK(result["workload"]["osl"] == kSmallOsl);
  CHECK(result["workload"]["measured_requests"] == kSmallRequests);
  CHECK(result["workload"]["most_in_flight"] == 1);
  CHECK(result["workload"]["output_tokens"] == kSmallOsl * kSmallRequests);
  CHECK(result["acceptance"]["requested"] == 5.7);
  CHECK(std::abs(result["acceptance"]["realised"].get<double>() - 5.7) <=
        result["acceptance"]["tolerance"].get<double>());
  CHECK(result["kernels"]["library_sha256"] == result["engine"]["server_info"]["kernels"]["sha256"]);
  CHECK(result["kernels"]["used_by_engine"] == true);
  CHECK(result["weights"]["verified"] == true);
  CHECK(result["power"]["measured"] == false);
  CHECK(result["latency_ms"]["ttft"]["count"] == kSmallRequests);
  const Ran checked = checkout.sweepctl({"validate", checkout.out().string()});
  INFO(checked.output);
  CHECK(checked.code == 0);
}

TEST_CASE("run: weights in a hub cache are verified and served from the pinned snapshot") {
  namespace fs = std::filesystem;
  const SmallCheckout checkout;
  const std::string matrix = base::read_file(checkout.root() / "matrix/embedded.yaml").value();
  const std::string revision = matrix.substr(matrix.find("revision: \"") + 11, 40);
  const fs::path cache = checkout.root() / "hub";
  const fs::path model = cache / "models--sweepctl--embedded-mla-8h";
  const fs::path snapshot = model / "snapshots" / revision;
  fs::create_directories(snapshot);
  fs::create_directory(model / "blobs");
  for (const auto& file : fs::directory_iterator(checkout.copy_of_model())) {
    const std::string blob = digest::sha256_file(file.path()).value();
    fs::rename(file.path(), model / "blobs" / blob);
    fs::create_symlink("../../blobs/" + blob, snapshot / file.path().filename());
  }
  const Ran ran = checkout.run({"--weights", cache.string()});
  INFO(ran.output);
  REQUIRE(ran.code == 0);
  const nlohmann::json result = checkout.json("result.json");
  CHECK(result["valid"] == true);
  CHECK(result["weights"]["layout"] == "hub-cache");
  CHECK(result["weights"]["folder"] == fs::canonical(snapshot).string());
  CHECK(checkout.resume().code == 0);
}

TEST_CASE("run: measured acceptance is reported, with no value to meet") {
  const SmallCheckout checkout;
  checkout.edit("matrix/embedded.yaml", "acceptance: { source: explicit, length: 5.7 }",
                "acceptance: { source: measured }");
  const Ran ran = checkout.run();
  INFO(ran.output);
  REQUIRE(ran.code == 0);
  const nlohmann::json acceptance = checkout.json("result.json")["acceptance"];
  CHECK(acceptance["source"] == "measured");
  CHECK(acceptance["requested"].is_null());
  CHECK(acceptance["tolerance"].is_null());
  CHECK(acceptance["realised"].get<double>() > 1.0);
  CHECK(acceptance["realised"].get<double>() < 8.0);
  CHECK(contains(checkout.text("engine.json"), "--acceptance measured"));
}

TEST_CASE("run: several requests in flight keep their exact lengths") {
  const SmallCheckout checkout;
  checkout.edit("matrix/embedded.yaml", "conc-list: [1]", "conc-list: [1, 3]");
  checkout.edit("recipes/embedded/mla-8h-dspark-8k256.yaml", "concurrencies: [1]", "concurrencies: [1, 3]");
  const Ran ran = checkout.run({"--conc", "3"});
  INFO(ran.output);
  REQUIRE(ran.code == 0);
  const nlohmann::json result = checkout.json("result.json");
  CHECK(result["workload"]["concurrency"] == 3);
  CHECK(result["workload"]["measured_requests"] == 3 * kSmallRequests);
  CHECK(result["valid"] == true);
}

TEST_CASE("run: the bundle's sums are right and cover every file of it") {
  const SmallCheckout checkout;
  REQUIRE(checkout.run().code == 0);
  std::istringstream sums(checkout.text("SHA256SUMS"));
  std::set<std::string> listed;
  std::string digest;
  std::string name;
  while (sums >> digest >> name) {
    CHECK(digest::sha256_file(checkout.out() / name).value() == digest);
    listed.insert(name);
  }
  for (const auto& item : std::filesystem::directory_iterator(checkout.out())) {
    const std::string file = item.path().filename().string();
    if (file != "SHA256SUMS" && file != ".lock") CHECK(listed.contains(file));
  }
  for (const char* file : {"result.json", "requests.jsonl", "weights.json", "kernels.json", "engine.log", "summary.md"})
    CHECK(listed.contains(file));
}

TEST_CASE("run: the same seed gives the same prompts, outputs and acceptance") {
  const SmallCheckout first;
  const SmallCheckout second;
  REQUIRE(first.run().code == 0);
  REQUIRE(second.run().code == 0);
  CHECK(first.json("result.json")["acceptance"] == second.json("result.json")["acceptance"]);
  CHECK(first.json("plan.json")["job"]["id"] == second.json("plan.json")["job"]["id"]);
}

TEST_CASE("run: the summary can be printed again from the bundle, and JSON is one document") {
  const SmallCheckout checkout;
  REQUIRE(checkout.run().code == 0);
  const Ran text = checkout.sweepctl({"summary", checkout.out().string()});
  CHECK(text.code == 0);
  CHECK(contains(text.output, "VALID"));
  const Ran markdown = checkout.sweepctl({"summary", "--markdown", checkout.out().string()});
  CHECK(markdown.output == checkout.text("summary.md"));
  const Ran json = checkout.sweepctl({"summary", "--format", "json", checkout.out().string()});
  CHECK(nlohmann::json::parse(json.output) == checkout.json("result.json"));
}

TEST_CASE("run: an engine that dies is not a result") {
  const SmallCheckout checkout(500);
  exec::CommandSpec command = checkout.command({"run", kEntry, "--out", checkout.out().string()});
  auto process = exec::Process::start(command).value();
  REQUIRE(wait_for_file(checkout.out() / "requests.partial.jsonl", process));
  ::kill(checkout.json("engine.json")["pid"].get<pid_t>(), SIGKILL);
  const auto status = process.wait(2min, {});
  REQUIRE(status.has_value());
  const std::string output = base::read_file(command.output).value();
  INFO(output);
  CHECK(status->code == 3);
  CHECK(contains(output, "[engine/died]"));
  CHECK(contains(output, "killed by signal 9"));
  CHECK_FALSE(checkout.has("result.json"));
}

TEST_CASE("run: an engine that hangs is given up on, with the reason") {
  const SmallCheckout checkout(500);
  exec::CommandSpec command =
      checkout.command({"run", kEntry, "--out", checkout.out().string(), "--request-timeout", "5"});
  auto process = exec::Process::start(command).value();
  REQUIRE(wait_for_file(checkout.out() / "requests.partial.jsonl", process));
  const pid_t engine = checkout.json("engine.json")["pid"];
  ::kill(engine, SIGSTOP);
  const auto status = process.wait(2min, {});
  REQUIRE(status.has_value());
  const std::string output = base::read_file(command.output).value();
  INFO(output);
  CHECK(status->code == 3);
  CHECK(contains(output, "[run/broken-off]"));
  CHECK(wait_for_end(engine));
}

TEST_CASE("run: Ctrl-C stops the engine and ends with 130, and what was done is kept") {
  const SmallCheckout checkout(500);
  auto process = exec::Process::start(checkout.command({"run", kEntry, "--out", checkout.out().string()})).value();
  REQUIRE(wait_for_file(checkout.out() / "requests.partial.jsonl", process));
  const pid_t engine = checkout.json("engine.json")["pid"];
  ::kill(process.pid(), SIGINT);
  const auto status = process.wait(1min, {});
  REQUIRE(status.has_value());
  CHECK(status->code == 130);
  CHECK(wait_for_end(engine));
  CHECK(checkout.has("weights.json"));
  CHECK_FALSE(checkout.has("result.json"));
}

TEST_CASE("run: a server that answers wrongly is measured and judged invalid, with the right reason") {
  struct Case {
    Fault fault;
    const char* rule;
    const char* text;
  };
  const Case c = GENERATE(Case{Fault::kShort, "judge/lengths", "31 output tokens by usage"},
                          Case{Fault::kLong, "judge/lengths", "33 output tokens by usage"},
                          Case{Fault::kPromptShort, "judge/lengths", "255 prompt tokens (asked 256)"},
                          Case{Fault::kMiscount, "judge/lengths", "output tokens by usage"},
                          Case{Fault::kStopReason, "judge/lengths", "finish reason \"stop\""},
                          Case{Fault::kCached, "judge/prefix-cache", "prompt tokens from a prefix cache: 512 by usage"},
                          Case{Fault::kAcceptanceOff, "judge/acceptance", "asked 5.7"});
  const FaultEngine server({.fault = c.fault, .model = "sweepctl/embedded-mla-8h"});
  const SmallCheckout checkout;
  const Ran ran = checkout.run({"--engine-url", server.url()});
  INFO(ran.output);
  CHECK(ran.code == 5);
  CHECK(contains(ran.output, "INVALID"));
  CHECK(contains(ran.output, c.text));
  const nlohmann::json result = checkout.json("result.json");
  CHECK(result["valid"] == false);
  CHECK(failed_rules(result).contains(c.rule));
}

TEST_CASE("run: a server that someone else runs can be right and still not prove its weights and kernels") {
  const FaultEngine server({.fault = Fault::kOk, .model = "sweepctl/embedded-mla-8h"});
  const SmallCheckout checkout;
  const Ran ran = checkout.run({"--engine-url", server.url()});
  INFO(ran.output);
  CHECK(ran.code == 5);
  CHECK(failed_rules(checkout.json("result.json")) == std::set<std::string>{"judge/kernels", "judge/weights"});
}

TEST_CASE("run: a server that breaks off leaves no result, and says how") {
  struct Case {
    Fault fault;
    const char* text;
  };
  const Case c = GENERATE(Case{Fault::kReset, "[engine/probe-failed]"}, Case{Fault::kHang, "[engine/probe-failed]"},
                          Case{Fault::kDieMidway, "[run/broken-off]"});
  const FaultEngine server({.fault = c.fault, .model = "sweepctl/embedded-mla-8h"});
  const SmallCheckout checkout;
  const Ran ran = checkout.run({"--engine-url", server.url(), "--request-timeout", "1.5"});
  INFO(ran.output);
  CHECK(ran.code == 3);
  CHECK(contains(ran.output, c.text));
  CHECK_FALSE(checkout.has("result.json"));
}

TEST_CASE("run: a server with another model, and no server at all, are told apart") {
  const SmallCheckout checkout;
  {
    const FaultEngine server({.fault = Fault::kOk, .model = "other/model"});
    const Ran ran = checkout.run({"--engine-url", server.url()});
    CHECK(ran.code == 3);
    CHECK(contains(ran.output, "[engine/wrong-model]"));
    CHECK(contains(ran.output, "other/model"));
  }
  const Ran ran = checkout.sweepctl(
      {"run", kEntry, "--out", (checkout.root() / "second").string(), "--engine-url", "http://127.0.0.1:1"});
  CHECK(ran.code == 3);
  CHECK(contains(ran.output, "[engine/not-ready]"));
}
