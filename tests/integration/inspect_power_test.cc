// `inspect power` and `inspect result` through the built command: the recorded report cases, and captures made here.
#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "orchestrator/base/file.h"
#include "orchestrator/exec/capture.h"
#include "tests/integration/small_checkout.h"
#include "tests/support/catch.h"
#include "tests/support/test_dir.h"

using namespace sweep;
using namespace sweep::test;
using nlohmann::json;

namespace {

Ran sweepctl(std::vector<std::string> arguments) {
  std::vector<std::string> argv{SWEEPCTL_PROGRAMS "/sweepctl"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  const auto ran =
      exec::capture({.argv = std::move(argv), .environment = {{"GITHUB_ACTIONS", ""}, {"NO_COLOR", "1"}}}, "", {}, {});
  REQUIRE(ran.has_value());
  return {.code = ran->status.code, .output = ran->output + ran->errors};
}

json inspected(std::vector<std::string> arguments, int code) {
  arguments.insert(arguments.begin(), {"inspect", "--format", "json"});
  const Ran ran = sweepctl(arguments);
  INFO(ran.output);
  CHECK(ran.code == code);
  json document = json::parse(ran.output, nullptr, false);
  REQUIRE(document.is_object());
  CHECK(document["schema_version"] == 1);
  for (const char* key : {"kind", "valid", "reasons", "diagnostics"}) CHECK(document.contains(key));
  return document;
}

std::filesystem::path report_cases() {
  return reference_data() / "cases_from_reports";
}

json case_named(const std::string& id) {
  const auto index = json::parse(base::read_file(report_cases() / "index.json").value(), nullptr, false);
  for (const json& item : index["cases"])
    if (item["id"] == id) return item;
  return {};
}

// Every value of the case is among the values, within its tolerance.
void check_values(const json& values, const json& item, const std::vector<std::string>& keys) {
  const double rel = item["tolerance"].value("rel", 0.0);
  const double abs = item["tolerance"].value("abs", 0.0);
  const std::function<void(const json&, const json&, const std::string&)> check = [&](const json& found,
                                                                                      const json& expected,
                                                                                      const std::string& key) {
    INFO(key << ": " << found.dump() << ", expected " << expected.dump());
    if (expected.is_structured()) {
      REQUIRE(found.size() == expected.size());
      for (const auto& [name, value] : expected.items())
        check(expected.is_array() ? found[std::stoul(name)] : found[name], value, key);
    } else if (expected.is_number()) {
      REQUIRE(found.is_number());
      CHECK(std::fabs(found.get<double>() - expected.get<double>()) <= abs + rel * std::fabs(expected.get<double>()));
    } else {
      CHECK(found == expected);
    }
  };
  for (const std::string& key : keys) check(values[key], item["values"][key], key);
}

constexpr const char* kHeader = "timestamp, index, uuid, power.draw [W], clocks.current.sm [MHz]\n";

// One GPU once a second from second 0 to `last`.
std::string once_a_second(int last) {
  std::string text = kHeader;
  for (int i = 0; i <= last; ++i) text += fmt::format("2026/11/03 10:00:{:02}.000, 0, GPU-a, 500.00 W, 1980 MHz\n", i);
  return text;
}

constexpr const char* kWindow =
    R"({"start": "2026-11-03T10:00:02.000", "end": "2026-11-03T10:00:06.000", "expected_gpus": 1, "output_tokens": 100})";

}  // namespace

TEST_CASE("inspect power: the window case of the reports comes out to the last digit") {
  if (!std::filesystem::exists(report_cases())) SWEEP_SKIP("no reference data");
  const auto folder = report_cases() / "power_window";
  const json document =
      inspected({"power", (folder / "gpu_metrics.csv").string(), "--window", (folder / "window.json").string()}, 0);
  CHECK(document["valid"] == true);
  CHECK(document["diagnostics"].empty());
  check_values(
      document, case_named("S44"),
      {"energy_j_per_gpu", "total_energy_j", "avg_total_power_w", "avg_power_per_gpu_w", "joules_per_output_token"});
}

TEST_CASE("inspect power: the clock decay of the reports is flagged") {
  if (!std::filesystem::exists(report_cases())) SWEEP_SKIP("no reference data");
  const auto folder = report_cases() / "power_clock_decay";
  const json document =
      inspected({"power", (folder / "gpu_metrics.csv").string(), "--window", (folder / "window.json").string()}, 0);
  check_values(document, case_named("S45"), {"clock_start", "clock_end", "drop_pct"});
  CHECK(document["clock_decays"] == true);
  REQUIRE(document["diagnostics"].size() == 1);
  CHECK(document["diagnostics"][0]["rule"] == "power/clock-decay");
  CHECK(document["diagnostics"][0]["severity"] == "warning");
}

TEST_CASE("inspect result: GPUs and throughput per GPU of the report's rows, with the conflict") {
  if (!std::filesystem::exists(report_cases())) SWEEP_SKIP("no reference data");
  const json document = inspected({"result", (report_cases() / "result_per_gpu_denominators.json").string()}, 0);
  check_values(document, case_named("S43"), {"gpus", "output_tput_per_gpu", "conflict"});
  CHECK(document["diagnostics"][0]["rule"] == "result/gpu-conflict");
}

TEST_CASE("inspect power: 0 where energy may be claimed, 5 where not, 1 for damaged files, 2 for wrong usage") {
  const TestDir dir;
  const std::string window = dir.write("window.json", kWindow).string();
  const std::string good = dir.write("good.csv", once_a_second(8)).string();
  const json valid = inspected({"power", good, "--window", window}, 0);
  CHECK(valid["total_energy_j"].get<double>() == Approx(2000));
  CHECK(valid["joules_per_output_token"].get<double>() == Approx(20));

  const std::string early = dir.write("early.csv", once_a_second(5)).string();
  const json invalid = inspected({"power", early, "--window", window}, 5);
  CHECK(invalid["valid"] == false);
  CHECK(invalid["total_energy_j"].is_null());
  CHECK(contains(invalid["reasons"][0].get<std::string>(), "the last power value is 1.000 s before the window ends"));

  const std::string damaged = dir.write("damaged.csv", once_a_second(8) + "2026/11/03 10:00:09.000, 0\n").string();
  const json unread = inspected({"power", damaged, "--window", window}, 1);
  CHECK(!unread.contains("gpus"));
  CHECK(unread["valid"] == false);
  CHECK(unread["diagnostics"][0]["line"] == 11);
  CHECK(unread["diagnostics"][0]["rule"] == "power/capture");
  const std::string bad_window = dir.write("bad.json", R"({"start": 1})").string();
  CHECK(inspected({"power", damaged, "--window", bad_window}, 1)["errors"] == 2);
  CHECK(inspected({"power", (dir / "absent.csv").string(), "--window", window}, 1)["diagnostics"][0]["rule"] ==
        "file/unreadable");

  CHECK(sweepctl({"inspect", "power", good}).code == 2);
  CHECK(sweepctl({"inspect", "power", good, "--windw", window}).code == 2);
  CHECK(sweepctl({"inspect", "result"}).code == 2);
}

TEST_CASE("inspect power: people read a table, the findings and the verdict") {
  const TestDir dir;
  const std::string window = dir.write("window.json", kWindow).string();
  const Ran good = sweepctl({"inspect", "power", dir.write("good.csv", once_a_second(8)).string(), "--window", window});
  INFO(good.output);
  CHECK(contains(good.output, "GPU 0        5          1.000  2000.000  1980 to 1980    0.00"));
  CHECK(contains(good.output, "20.000000 J per output token"));
  const Ran bad = sweepctl({"inspect", "power", dir.write("bad.csv", once_a_second(3)).string(), "--window", window});
  INFO(bad.output);
  CHECK(contains(bad.output, "INVALID: no energy is claimed"));
  CHECK(contains(bad.output, "[power/not-covered]"));
}

TEST_CASE("inspect result: rows that leave the number of GPUs open are refused with 5, damaged ones with 1") {
  const TestDir dir;
  const std::string open =
      dir.write("open.json", R"([{"id": "x", "tp": 4, "gpus_with_power": 8, "output_throughput": 10}])").string();
  const json refused = inspected({"result", open}, 5);
  CHECK(refused["output_tput_per_gpu"]["x"].is_null());
  CHECK(refused["reasons"].size() == 1);
  for (const char* text : {"[{\"id\": \"x\"}]", "[", "7", "{}", "", "{\"tp\": 1, \"tp\": 2}"}) {
    INFO(text);
    CHECK(!inspected({"result", dir.write("damaged.json", text).string()}, 1).contains("gpus"));
  }
}
