#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "kernels/gate/cases.h"
#include "kernels/gate/library.h"
#include "kernels/gate/report.h"
#include "tests/kernels/gate_process.h"
#include "tests/support/catch.h"

namespace flashmla::gate {
namespace {

// Sanitized kernels are some forty times slower: the grid, which has every format and head count, is enough for them.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr const char* kFilter = "grid-";
#else
constexpr const char* kFilter = "";
#endif

std::vector<std::string> judge(const char* library) {
  return {"--library", library, "--baseline", FLASHMLA_TEST_BASELINE, "--report", "REPORT"};
}

std::vector<std::string> judge_filtered(const char* library) {
  std::vector<std::string> arguments = judge(library);
  if (*kFilter != '\0') arguments.insert(arguments.end(), {"--filter", kFilter});
  return arguments;
}

Outcome run_broken(const std::string& fault, const std::string& filter = "") {
  std::vector<std::string> arguments = judge(FLASHMLA_TEST_BROKEN);
  if (!filter.empty()) arguments.insert(arguments.end(), {"--filter", filter});
  return run_gate(arguments, {"FLASHMLA_BROKEN=" + fault});
}

TEST_CASE("gate: the bundled library passes on every instruction set") {
  const char* isa = GENERATE("generic", "avx2", "avx512");
  const Outcome outcome = run_gate(judge_filtered(FLASHMLA_TEST_LIBRARY), {std::string("FLASHMLA_CPU_ISA=") + isa});
  CAPTURE(isa, outcome.errors);
  CHECK(outcome.exit == 0);
  CHECK(contains(outcome.report, "\"verdict\": \"pass\""));
  CHECK_FALSE(contains(outcome.report, "\"verdict\": \"fail\""));
  CHECK(contains(outcome.report, "\"schema_version\": 1"));
}

TEST_CASE("gate: the wrapper without a fault passes, so that what it finds below is the fault") {
  CHECK(run_broken("none", kFilter).exit == 0);
}

TEST_CASE("gate: each fault fails the gate and is named with its cell, its check and both values") {
  struct Expected {
    const char* fault;
    const char* cell;
    const char* check;
    const char* detail;
  };
  const Expected expected = GENERATE(
      Expected{"lse", "v4-verify-step", "oracle: lse[0, 7, 7] is ", "the oracle says "},
      Expected{"output", "v4-verify-step", "oracle: output[0, 7, 7, 511] is ", "the oracle says "},
      Expected{"nan", "v4-verify-step", "oracle: output[0, 7, 7, 0] is nan", "the oracle says "},
      Expected{"one-ulp", "v4-verify-step", "padded: differs from the padded baseline: lse[0, 7, 7] is ", "then "},
      Expected{"not-repeatable", "v4-verify-step", "repeat: a second run differs: lse[0, 7, 7] is ", "then "},
      Expected{"guard", "v4-strided", "guards: an output was written outside the addressed rows", ""},
      Expected{"refuses-valid", "v4-verify-step", "status: the candidate refuses a valid call: unsupported", ""},
      Expected{"accepts-invalid", "invalid-arguments", "arguments: sparse decode, workspace one byte too small",
               "the status is \"ok\", expected \"workspace too small\""},
      Expected{"writes-when-refusing", "invalid-arguments", "arguments: sparse decode, q null",
               "the outputs were written"},
      Expected{"no-message", "invalid-arguments", "arguments: ", "it is refused without a message"},
      Expected{"dense-lse", "dense-576-causal", "oracle: lse[0, 0, 0] is 123", "the oracle says "});
  const Outcome outcome = run_broken(expected.fault, expected.cell);
  CAPTURE(expected.fault, outcome.errors);
  CHECK(outcome.exit == 4);
  CHECK(contains(outcome.errors, std::string("cell ") + expected.cell));
  CHECK(contains(outcome.errors, expected.check));
  CHECK(contains(outcome.errors, expected.detail));
  CHECK(contains(outcome.report, "\"verdict\": \"fail\""));
}

TEST_CASE("gate: what it cannot run is told apart from what fails") {
  SECTION("a library that is not there") {
    const Outcome outcome = run_gate(judge("/nonexistent/libflashmla.so"));
    CHECK(outcome.exit == 3);
    CHECK(contains(outcome.errors, "cannot load \"/nonexistent/libflashmla.so\""));
  }
  SECTION("a library of another ABI") {
    const Outcome outcome = run_broken("abi");
    CHECK(outcome.exit == 3);
    CHECK(contains(outcome.errors, "ABI version is 2, expected 1"));
  }
  SECTION("a baseline that is not padded") {
    const Outcome outcome =
        run_gate({"--library", FLASHMLA_TEST_LIBRARY, "--baseline", FLASHMLA_TEST_LIBRARY, "--report", "REPORT"});
    CHECK(outcome.exit == 3);
    CHECK(contains(outcome.errors, "its variant is \"native\", expected \"padded64\""));
  }
  SECTION("a report that cannot be written") {
    const Outcome outcome = run_gate({"--library", FLASHMLA_TEST_LIBRARY, "--baseline", FLASHMLA_TEST_BASELINE,
                                      "--report", "/nonexistent/report.json"});
    CHECK(outcome.exit == 3);
    CHECK(contains(outcome.errors, "cannot write \"/nonexistent/report.json\""));
  }
}

TEST_CASE("gate: wrong usage exits with 2 and says what is wrong") {
  CHECK(run_gate({}).exit == 2);
  CHECK(contains(run_gate({}).errors, "--library, --baseline and --report are required"));
  CHECK(contains(run_gate({"--cases", "slow"}).errors, "--cases is \"slow\", expected quick or full"));
  CHECK(contains(run_gate({"--seed", "x"}).errors, "--seed expects a number"));
  CHECK(contains(run_gate({"--threads", "-1"}).errors, "--threads expects a number"));
  CHECK(contains(run_gate({"--device", "x"}).errors, "--device expects a number"));
  CHECK(contains(run_gate({"--case-repeat", "0"}).errors, "--case-repeat expects a number from 1"));
  CHECK(contains(run_gate({"--report"}).errors, "--report expects a value"));
  CHECK(contains(run_gate({"--what", "1"}).errors, "unknown option \"--what\""));
  CHECK(run_gate({"--help"}).exit == 0);
}

TEST_CASE("gate: the same seed gives the same report, byte for byte") {
  const Folder folder;
  const std::string report = folder.file("fixed.json");
  auto run = [&] {
    std::vector<std::string> arguments = judge_filtered(FLASHMLA_TEST_LIBRARY);
    arguments.insert(arguments.end(), {"--seed", "11", "--report", report});  // the later one counts
    const Outcome outcome = run_gate(arguments);
    REQUIRE(outcome.exit == 0);
    return read(report);
  };
  const std::string first = run();
  CHECK(first == run());
}

TEST_CASE("gate: case names are unique and the sets cover what they promise") {
  const CaseSet set = GENERATE(CaseSet::kQuick, CaseSet::kFull);
  std::set<std::string> names;
  std::set<int> formats, heads, sinks, query_tokens, scales, logits;
  for (const Case& one : make_cases(set, 1)) {
    CHECK(names.insert(one.name).second);
    if (one.dense) continue;
    formats.insert(one.format);
    heads.insert(one.num_heads);
    sinks.insert(static_cast<int>(one.sink));
    query_tokens.insert(one.s_q);
    scales.insert(static_cast<int>(one.scales));
    logits.insert(static_cast<int>(one.logits));
  }
  CHECK(formats.size() == 4);
  CHECK(sinks.size() == 5);
  for (const int count : {1, 2, 3, 5, 7, 8, 9, 12, 16, 17, 24, 32, 48, 64, 96, 128}) CHECK(heads.count(count) == 1);
  CHECK(query_tokens.count(1) == 1);
  CHECK(query_tokens.count(16) == 1);
  CHECK(scales.size() == 5);
  CHECK(logits.size() == 7);
}

TEST_CASE("gate: --filter runs the cells it names and records itself") {
  std::vector<std::string> arguments = judge(FLASHMLA_TEST_LIBRARY);
  arguments.insert(arguments.end(), {"--filter", "v4-sink"});
  const Outcome outcome = run_gate(arguments);
  CHECK(outcome.exit == 0);
  const auto report = nlohmann::json::parse(outcome.report);
  CHECK(report["filter"] == "v4-sink");
  CHECK(report["cells"].size() == 4);
  for (const auto& cell : report["cells"]) CHECK(contains(cell["name"].get<std::string>(), "v4-sink"));
  arguments.back() = "no-such-case";
  const Outcome none = run_gate(arguments);
  CHECK(none.exit == 2);
  CHECK(contains(none.errors, "--filter \"no-such-case\" fits no case"));
  CHECK(none.report.empty());
}

TEST_CASE("gate: a fault that shows only sometimes is found by more runs") {
  std::vector<std::string> arguments = judge(FLASHMLA_TEST_BROKEN);
  arguments.insert(arguments.end(), {"--filter", "v4-drafting", "--case-repeat", "9"});
  const Outcome outcome = run_gate(arguments, {"FLASHMLA_BROKEN=tenth-run"});
  CAPTURE(outcome.errors);
  CHECK(outcome.exit == 4);
  CHECK(contains(outcome.errors, "cell v4-drafting"));
  CHECK(contains(outcome.errors, "repeat: a further run differs: lse[0, 6, 7] is "));
  arguments.back() = "7";  // with the first run and the one with one thread: nine
  CHECK(run_gate(arguments, {"FLASHMLA_BROKEN=tenth-run"}).exit == 0);
}

TEST_CASE("gate: a library that takes an index outside the pool for a token fails") {
  const Outcome outcome = run_broken("accepts-any-index", "outside-the-pool");
  CHECK(outcome.exit == 4);
  CHECK(contains(outcome.errors, "cell v4-outside-the-pool"));
  CHECK(contains(outcome.errors, "refusal: an index outside the pool is not refused"));
}

TEST_CASE("gate: the report has errors of each cell and over each format") {
  std::vector<std::string> arguments = judge(FLASHMLA_TEST_LIBRARY);
  arguments.insert(arguments.end(), {"--filter", "h8"});
  const Outcome outcome = run_gate(arguments);
  REQUIRE(outcome.exit == 0);
  const auto report = nlohmann::json::parse(outcome.report);
  CHECK(report["device"].is_null());
  CHECK(report["stopped"] == "");
  CHECK(report["tolerance"]["sparse"]["weight_unit"] == 0.0);
  std::set<std::string> groups;
  for (const auto& group : report["groups"]) {
    groups.insert(group["name"].get<std::string>());
    CAPTURE(group.dump());
    CHECK(group["failed"] == 0);
    CHECK(group["cells"].get<int>() > 0);
    CHECK(group["ordinary"]["output"]["values"].get<int>() > 0);
    CHECK(group["ordinary"]["output"]["relative_frobenius_error"].get<double>() > 1e-5);
    CHECK(group["ordinary"]["output"]["relative_frobenius_error"].get<double>() < 2e-3);
    CHECK(group["ordinary"]["lse"]["mean_over_floor"].get<double>() >= 0.9);
    CHECK(group["ordinary"]["lse"]["mean_over_floor"].get<double>() < 1.5);
    CHECK(group["baseline"]["output"]["mean_abs_error"] == group["output"]["mean_abs_error"]);
  }
  CHECK(groups == std::set<std::string>{"v4", "v32", "v41", "v41-fp4"});
  for (const auto& cell : report["cells"]) {
    CHECK(cell["repeats"] == 1);
    CHECK(cell["graph_replays"] == 0);
    CHECK(cell["lse"]["floor_mean_abs_error"].get<double>() >= 0);
    CHECK(cell["output"]["max_of_tolerance"].get<double>() > 0.1);
    CHECK(cell["output"]["max_of_tolerance"].get<double>() <= 1.0);
  }
}

TEST_CASE("gate: groups add up their cells, and only ordinary ones where it says so") {
  Cell ordinary;
  ordinary.group = "v4";
  ordinary.ordinary = true;
  ordinary.repeats = 3;
  ordinary.errors.output.add(0.5, 2.0);
  ordinary.errors.lse.add(3e-7, 5.0);
  ordinary.errors.lse_floor.add(2e-7, 5.0);
  Cell hostile = ordinary;
  hostile.ordinary = false;
  hostile.errors = {};
  hostile.errors.output.add(1.5, 0.0);
  hostile.fail("oracle", "too far");
  Cell arguments;
  const std::vector<Group> groups = groups_of({arguments, ordinary, hostile});
  REQUIRE(groups.size() == 1);
  const Group& group = groups.front();
  CHECK(group.cells == 2);
  CHECK(group.failed == 1);
  CHECK(group.repeats == 6);
  CHECK(group.all.output.count == 2);
  CHECK(group.all.output.max == 1.5);
  CHECK(group.all.output.mean() == 1.0);
  CHECK(group.all.output.relative_frobenius() == Approx(std::sqrt(2.5) / 2));
  CHECK(group.ordinary.output.count == 1);
  CHECK(group.ordinary.lse_ratio() == Approx(1.5));
  CHECK(Errors{}.lse_ratio() == 0.0);
}

TEST_CASE("gate: a format whose LSE is further off than rounding explains fails, by its ordinary cells") {
  Group group{.name = "v32"};
  group.ordinary.lse.add(3.1e-7, 5.0);
  group.ordinary.lse_floor.add(2e-7, 5.0);
  const Cell failed = check_floors({group}).front();
  CHECK(failed.name == "lse-floor-v32");
  REQUIRE(failed.failures.size() == 1);
  CHECK(failed.failures[0].check == "floor");
  CHECK(failed.failures[0].message ==
        "mean error of the LSE is 3.1e-07, 1.55 times that of rounding to FP32 alone, at most 1.5");
  group.ordinary.lse = {};
  group.ordinary.lse.add(3e-7, 5.0);
  CHECK(check_floors({group}).front().passed());
}

TEST_CASE("gate: beside nothing an output may be the smallest BF16 number if the sum is about half of it") {
  oracle::Row row;
  row.abs_out = row.small_out = {0};
  const double smallest = 0x1p-133;
  for (const double just_below_half : {0.4961, 0.499}) {
    row.out = {just_below_half * smallest};
    const double off = smallest - row.out[0];
    CHECK(off <= tolerance_of("cpu", Stored::kExactScales).output(row, 0));
  }
  row.out = {0.45 * smallest};
  CHECK(smallest - row.out[0] > tolerance_of("cpu", Stored::kExactScales).output(row, 0));
}

TEST_CASE("gate: the bound follows what the library computes with") {
  oracle::Row row;
  row.out.assign(512, 0.25);
  row.abs_out.assign(512, 1.0);
  row.small_out.assign(512, 0x1p-20);
  row.lse = 4;
  row.score_mass = 10;
  row.score_peak = 3;
  const Tolerance cpu = tolerance_of("cpu", Stored::kExactScales);
  CHECK(cpu.lse(row) == Approx(0x1p-24 * (4 + 2 * 10 + 8)));
  CHECK(cpu.output(row, 0) < 0.25 * 0x1p-8 + 0x1p-17);
  const Tolerance tensor_cores = tolerance_of("sm_90a", Stored::kExactScales);
  CHECK(tensor_cores.lse(row) == Approx(0x1p-24 * (4 + 4 * 10 + 16 * 3 + 8)));
  CHECK(tensor_cores.output(row, 0) > 0.25 * 0x1p-8 + 0x1p-11 + 0x1p-20);
  CHECK(tensor_cores.output(row, 0) < 0.25 * 0x1p-8 + 0x1p-11 + 0x1p-15);
  CHECK(tolerance_of("sm_90a", Stored::kFp32Scales).output(row, 0) ==
        Approx(tensor_cores.output(row, 0) + 0x1p-10).epsilon(0.01));
  const Tolerance dense = tolerance_of("sm_90a", Stored::kBf16);
  CHECK(dense.output(row, 0) < tensor_cores.output(row, 0));
  CHECK(dense.output(row, 0) > cpu.output(row, 0));
}

TEST_CASE("gate: a report without cells is no pass") {
  CHECK_FALSE(Report{}.passed());
}

}  // namespace
}  // namespace flashmla::gate
