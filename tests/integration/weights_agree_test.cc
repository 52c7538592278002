// Reports of several hosts, made by the built program from real folders, against each other and before a run.
#include <fmt/format.h>

#include "orchestrator/digest/sha256.h"
#include "tests/integration/small_checkout.h"
#include "tests/support/catch.h"

using namespace sweep;
using namespace sweep::test;
namespace fs = std::filesystem;

namespace {

constexpr const char* kPin = "matrix/models/embedded-mla-8h.json";
constexpr const char* kShard = "model-00002-of-00003.safetensors";

void flip_byte(const fs::path& file) {
  std::string bytes = base::read_file(file).value();
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  REQUIRE(base::write_file_atomic(file, bytes).has_value());
}

// What `weights verify` says about a folder, as if another host had said it.
nlohmann::json report_of(const SmallCheckout& checkout, const fs::path& model, const std::string& host) {
  const Ran ran = checkout.sweepctl({"-q", "weights", "verify", model.string(), "--pin",
                                     (checkout.root() / kPin).string(), "--no-cache", "--format", "json"});
  auto json = nlohmann::json::parse(ran.output, nullptr, false);
  INFO(ran.output);
  REQUIRE(json.is_object());
  CHECK(ran.code == (json["verified"] == true ? 0 : 1));
  CHECK(json["host"].is_string());
  json["host"] = host;
  return json;
}

std::string saved(const SmallCheckout& checkout, const nlohmann::json& report) {
  const fs::path file = checkout.root() / (report["host"].get<std::string>() + ".json");
  REQUIRE(base::write_file_atomic(file, report.dump()).has_value());
  return file.string();
}

}  // namespace

TEST_CASE("weights agree: hosts with the same model agree, one with a flipped byte is named with both digests") {
  const SmallCheckout checkout;
  const fs::path model = checkout.copy_of_model();
  const std::string first = saved(checkout, report_of(checkout, model, "node0"));
  const std::string second = saved(checkout, report_of(checkout, model, "node1"));
  const Ran same = checkout.sweepctl({"weights", "agree", first, second});
  INFO(same.output);
  CHECK(same.code == 0);
  CHECK(contains(same.output, "agreed: 2 reports; identical files: config 2, tokenizer 2, index 1, shard 3"));

  const std::string good = digest::sha256_file(model / kShard).value();
  flip_byte(model / kShard);
  const std::string third = saved(checkout, report_of(checkout, model, "node2"));
  const Ran differs = checkout.sweepctl({"weights", "agree", first, second, third});
  INFO(differs.output);
  CHECK(differs.code == 1);
  CHECK(contains(differs.output, fmt::format("\"{}\" differs: \"node2\" has SHA-256 {}, \"node0\" and \"node1\" have "
                                             "SHA-256 {} (2 of 3 hosts) [weights/hosts-disagree]",
                                             kShard, digest::sha256_file(model / kShard).value(), good)));
  CHECK(contains(differs.output, "\"node2\" is not verified: its verification found 1 error"));
  CHECK(contains(differs.output, "NOT agreed"));

  const Ran json = checkout.sweepctl({"weights", "agree", first, third, "--format", "json"});
  CHECK(json.code == 1);
  const auto document = nlohmann::json::parse(json.output, nullptr, false);
  REQUIRE(document.is_object());
  CHECK(document["agreed"] == false);
  CHECK(document["differences"][0]["path"] == kShard);
  CHECK(document["hosts"][1]["verdict"] == "not verified");
}

TEST_CASE("weights agree: of many hosts those that do not agree are shown") {
  const SmallCheckout checkout;
  nlohmann::json report = report_of(checkout, checkout.copy_of_model(), "node0");
  std::vector<std::string> arguments{"weights", "agree"};
  for (int i = 0; i < 100; ++i) {
    report["host"] = fmt::format("node{}", i);
    auto changed = report;
    if (i == 42) changed["files"][0]["sha256"] = std::string(64, 'b');
    arguments.push_back(saved(checkout, changed));
  }
  const Ran ran = checkout.sweepctl(arguments);
  INFO(ran.output);
  CHECK(ran.code == 1);
  CHECK(contains(ran.output, "node42"));
  CHECK(contains(ran.output, "99 more hosts, 99 of them agree"));
  CHECK(contains(ran.output, "(99 of 100 hosts)"));
  CHECK_FALSE(contains(ran.output, "node17"));
}

TEST_CASE("weights agree: one report, none, and what is no report") {
  const SmallCheckout checkout;
  const std::string good = saved(checkout, report_of(checkout, checkout.copy_of_model(), "node0"));
  const Ran one = checkout.sweepctl({"weights", "agree", good});
  CHECK(one.code == 2);
  CHECK(contains(one.output, "[cli/usage]"));
  CHECK(checkout.sweepctl({"weights", "agree"}).code == 2);
  const Ran twice = checkout.sweepctl({"weights", "agree", good, good});
  CHECK(twice.code == 0);
  CHECK(contains(twice.output, "[weights/host-repeated]"));
  const Ran bad = checkout.sweepctl({"weights", "agree", good, (checkout.root() / kPin).string(), "absent.json"});
  INFO(bad.output);
  CHECK(bad.code == 1);
  CHECK(contains(bad.output, "[file/malformed]"));
  CHECK(contains(bad.output, "absent.json: error:"));
}

TEST_CASE("weights verify: a lock file on a branch, with bad digests, has three findings and nothing is hashed") {
  const SmallCheckout checkout;
  const fs::path model = checkout.copy_of_model();
  const fs::path lock = checkout.root() / "lock.json";
  REQUIRE(base::write_file_atomic(lock, fmt::format(R"({{"repo": "example-org/Tiny", "revision": "main",
 "files": {{"config.json": {{"sha256": "{}"}},
  "tokenizer.json": {{"sha256": ""}},
  "model.safetensors": {{"sha256": "{}"}}}}}})",
                                                    std::string(64, '1'), std::string(40, '2')))
              .has_value());
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"weights", "verify", model.string(), "--pin", lock.string()},
        std::vector<std::string>{"validate", lock.string()}}) {
    const Ran ran = checkout.sweepctl(arguments);
    INFO(ran.output);
    CHECK(ran.code == 1);
    CHECK(contains(ran.output, "lock.json:1:42: error: \"revision\" is text \"main\", expected a commit"));
    CHECK(contains(ran.output, "lock.json:3:32: error: \"sha256\" is empty"));
    CHECK(contains(ran.output, "expected a SHA-256 of 64 hexadecimal digits"));
    CHECK(contains(ran.output, "3 errors"));
    CHECK_FALSE(contains(ran.output, "hashing"));
  }
}

TEST_CASE("run: refuses to dispatch while another host's weights differ, and records that the hosts agree") {
  const SmallCheckout checkout;
  const fs::path other = checkout.copy_of_model();
  const std::string good = saved(checkout, report_of(checkout, other, "node1"));
  flip_byte(other / kShard);
  const std::string bad = saved(checkout, report_of(checkout, other, "node2"));

  const Ran refused = checkout.run({"--weights-report", good, "--weights-report", bad});
  INFO(refused.output);
  CHECK(refused.code == 1);
  CHECK(contains(refused.output, "[run/weights-disagree]"));
  CHECK(contains(refused.output, std::string("\"") + kShard + "\" differs: \"node2\" has SHA-256"));
  CHECK(checkout.json("weights.json")["agreement"]["agreed"] == false);
  for (const char* later : {"kernels.json", "engine.json", "engine.log", "requests.partial.jsonl", "result.json"})
    CHECK_FALSE(checkout.has(later));

  const Ran without = checkout.resume();
  INFO(without.output);
  CHECK(without.code == 1);
  CHECK(contains(without.output, "[run/weights-disagree]"));
  CHECK_FALSE(checkout.has("engine.json"));

  // Staging again does not make the hosts agree.
  const fs::path elsewhere = checkout.root() / "elsewhere";
  fs::copy(other, elsewhere);
  flip_byte(elsewhere / kShard);
  const Ran restaged = checkout.run({"--resume", "--weights", elsewhere.string()});
  INFO(restaged.output);
  CHECK(restaged.code == 1);
  CHECK(contains(restaged.output, "[run/weights-disagree]"));

  // What the stage's document says is only used if it can be understood.
  REQUIRE(base::write_file_atomic(checkout.out() / "weights.json",
                                  R"({"schema_version": 1, "verified": true, "files": 5, "agreement": 7})")
              .has_value());
  const Ran mended = checkout.run({"--resume", "--weights-report", good});
  INFO(mended.output);
  CHECK(mended.code == 0);
  const nlohmann::json agreement = checkout.json("result.json")["weights"]["agreement"];
  CHECK(agreement["agreed"] == true);
  REQUIRE(agreement["hosts"].size() == 2);
  CHECK(agreement["hosts"][1]["host"] == "node1");
  CHECK(checkout.sweepctl({"validate", checkout.out().string()}).code == 0);

  const Ran bundles = checkout.sweepctl({"weights", "agree", checkout.out().string(), good});
  INFO(bundles.output);
  CHECK(bundles.code == 0);
}

TEST_CASE("run: a report of another host that cannot be read, or is of another revision, starts nothing") {
  const SmallCheckout checkout;
  const Ran unread = checkout.run({"--weights-report", "absent.json"});
  INFO(unread.output);
  CHECK(unread.code == 1);
  CHECK(contains(unread.output, "[file/unreadable]"));
  CHECK(contains(unread.output, "[run/weights-disagree]"));

  nlohmann::json report = report_of(checkout, checkout.copy_of_model(), "node1");
  report["revision"] = std::string(40, 'd');
  const Ran other = checkout.run({"--resume", "--weights-report", saved(checkout, report)});
  INFO(other.output);
  CHECK(other.code == 1);
  CHECK(contains(other.output, "the hosts have different revisions"));
  CHECK_FALSE(checkout.has("kernels.json"));

  const Ran dry = checkout.run({"--dry-run", "--weights-report", "node1.json"});
  CHECK(dry.code == 0);
  CHECK(contains(dry.output, "must agree with the report node1.json"));
}
