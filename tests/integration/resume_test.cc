// kill -9 at every stage, then --resume.
#include <algorithm>
#include <csignal>
#include <map>
#include <sstream>

#include "tests/integration/small_checkout.h"
#include "tests/support/catch.h"

using namespace sweep;
using namespace sweep::test;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

// Inode and content of a stage file: a stage that is done again would replace it.
std::map<std::string, std::pair<uint64_t, std::string>> finished_stages(const SmallCheckout& checkout) {
  std::map<std::string, std::pair<uint64_t, std::string>> files;
  for (const char* name : {"plan.json", "weights.json", "kernels.json", "measurement.json", "requests.jsonl"}) {
    if (!checkout.has(name)) continue;
    const auto status = fs::last_write_time(checkout.out() / name).time_since_epoch().count();
    files[name] = {static_cast<uint64_t>(status), checkout.text(name)};
  }
  return files;
}

// What the engine answered, whatever the timing: the digest of each measured request's output.
std::vector<std::string> outputs(const SmallCheckout& checkout) {
  std::vector<std::string> digests;
  std::istringstream lines(checkout.text("requests.jsonl"));
  std::string line;
  while (std::getline(lines, line)) {
    const auto json = nlohmann::json::parse(line);
    if (json.value("phase", "") == "measured") digests.push_back(json["output_sha256"]);
  }
  return digests;
}

void check_no_torn_file(const SmallCheckout& checkout) {
  for (const auto& item : fs::directory_iterator(checkout.out())) {
    if (item.path().extension() != ".json" || item.path().filename().string().starts_with('.')) continue;
    if (item.path().filename() == "gate-report.json") continue;  // written by the gate, read only when it has ended
    INFO(item.path().string());
    CHECK_FALSE(nlohmann::json::parse(base::read_file(item.path()).value(), nullptr, false).is_discarded());
  }
}

const SmallCheckout& reference() {
  static const SmallCheckout checkout;
  static const Ran ran = checkout.run();
  INFO(ran.output);
  REQUIRE(ran.code == 0);
  return checkout;
}

}  // namespace

TEST_CASE(
    "resume: after a kill -9 at any stage the run ends with the same result and no finished stage is done again") {
  const std::string stage =
      GENERATE(as<std::string>(), "plan.json", "weights.json", "kernels.json", "engine.json", "requests.partial.jsonl",
               "requests.jsonl", "measurement.json", "verdict.json", "summary.md", "result.json", "SHA256SUMS");
  const SmallCheckout checkout;
  {
    auto process = exec::Process::start(checkout.command({"run", kEntry, "--out", checkout.out().string()})).value();
    REQUIRE(wait_for_file(checkout.out() / stage, process));
    ::kill(process.pid(), SIGKILL);
    REQUIRE(process.wait(1min, {}).has_value());
  }
  INFO(stage);
  check_no_torn_file(checkout);
  if (checkout.has("engine.json")) CHECK(wait_for_end(checkout.json("engine.json")["pid"]));
  const auto before = finished_stages(checkout);

  const Ran resumed = checkout.resume();
  INFO(resumed.output);
  REQUIRE(resumed.code == 0);
  const auto after = finished_stages(checkout);
  // Requests without their measurement.json belong to a measurement that was not finished.
  const bool measured_before = before.contains("measurement.json");
  for (const auto& [name, file] : before)
    if (name != "requests.jsonl" || measured_before) CHECK(after.at(name) == file);

  const nlohmann::json result = checkout.json("result.json");
  const nlohmann::json expected = reference().json("result.json");
  CHECK(result["valid"] == true);
  for (const char* key : {"entry", "point", "acceptance", "workload", "scope", "conditions"}) {
    INFO(key);
    CHECK(result[key] == expected[key]);
  }
  CHECK(outputs(checkout) == outputs(reference()));
  for (const auto& item : fs::directory_iterator(checkout.out())) {
    const std::string name = item.path().filename().string();
    CHECK((name == ".lock" || !name.starts_with('.')));
  }
}

TEST_CASE("resume: a finished run stays as it is") {
  const SmallCheckout checkout;
  REQUIRE(checkout.run().code == 0);
  const std::string result = checkout.text("result.json");
  const Ran again = checkout.resume();
  INFO(again.output);
  CHECK(again.code == 0);
  CHECK(checkout.text("result.json") == result);
}

TEST_CASE("resume: what a broken-off measurement recorded is kept apart") {
  const SmallCheckout checkout(300);
  {
    auto process = exec::Process::start(checkout.command({"run", kEntry, "--out", checkout.out().string()})).value();
    REQUIRE(wait_for_file(checkout.out() / "requests.partial.jsonl", process));
    ::kill(process.pid(), SIGKILL);
    REQUIRE(process.wait(1min, {}).has_value());
  }
  const Ran resumed = checkout.resume();
  INFO(resumed.output);
  REQUIRE(resumed.code == 0);
  CHECK(checkout.has("attempt-1/requests.partial.jsonl"));
  CHECK(checkout.has("attempt-1/engine.log"));
  CHECK_FALSE(checkout.has("requests.partial.jsonl"));
}

TEST_CASE("resume: weights that changed meanwhile are verified again, not trusted") {
  const SmallCheckout checkout(300);
  const fs::path model = checkout.copy_of_model();
  {
    auto process = exec::Process::start(
                       checkout.command({"run", kEntry, "--out", checkout.out().string(), "--weights", model.string()}))
                       .value();
    REQUIRE(wait_for_file(checkout.out() / "kernels.json", process));
    ::kill(process.pid(), SIGKILL);
    REQUIRE(process.wait(1min, {}).has_value());
  }
  std::string config = base::read_file(model / "config.json").value();
  config[config.find("256")] = '3';
  REQUIRE(base::write_file_atomic(model / "config.json", config).has_value());
  const Ran resumed = checkout.run({"--resume", "--weights", model.string()});
  INFO(resumed.output);
  CHECK(resumed.code == 1);
  CHECK(contains(resumed.output, "[weights/hash-mismatch]"));
}

TEST_CASE("resume: another plan than the one the run was started with is refused") {
  const SmallCheckout checkout;
  REQUIRE(checkout.run().code == 0);
  const Ran other_seed = checkout.run({"--resume", "--seed", "2"});
  CHECK(other_seed.code == 3);
  CHECK(contains(other_seed.output, "[run/plan-changed]"));
}

TEST_CASE("resume: a folder with a run is not overwritten, a folder without one not resumed") {
  const SmallCheckout checkout;
  REQUIRE(checkout.run().code == 0);
  const Ran again = checkout.run();
  CHECK(again.code == 2);
  CHECK(contains(again.output, "[run/exists]"));
  const Ran nothing = checkout.sweepctl({"run", kEntry, "--resume", "--out", (checkout.root() / "none").string()});
  CHECK(nothing.code == 2);
  CHECK(contains(nothing.output, "[run/nothing-to-resume]"));
}

TEST_CASE("resume: two processes cannot work in one folder") {
  const SmallCheckout checkout(500);
  auto process = exec::Process::start(checkout.command({"run", kEntry, "--out", checkout.out().string()})).value();
  REQUIRE(wait_for_file(checkout.out() / "requests.partial.jsonl", process));
  exec::CommandSpec second = checkout.command({"run", kEntry, "--resume", "--out", checkout.out().string()});
  second.output = checkout.root() / "second.txt";
  CHECK(exec::run(second, 1min, {}).value().code == 3);
  CHECK(contains(base::read_file(second.output).value(), "[run/in-use]"));
  process.stop(10s);
}
