#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <vector>

#include "kernels/gate/cases.h"
#include "kernels/gate/library.h"
#include "kernels/gate/report.h"
#include "tests/support/catch.h"

namespace flashmla::gate {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "flashmla-gate-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file(const char* name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

std::string read(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

struct Outcome {
  int exit = -1;
  std::string errors;  // stderr
  std::string report;  // empty if there is none
};

// Runs the gate as its own process; `environment` is added to ours.
Outcome run_gate(std::vector<std::string> arguments, const std::vector<std::string>& environment = {}) {
  const Folder folder;
  for (std::string& argument : arguments) {
    if (argument == "REPORT") argument = folder.file("report.json");
  }
  arguments.insert(arguments.begin(), FLASHMLA_TEST_GATE);
  std::vector<char*> argv, envp;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::vector<std::string> variables = environment;
  for (std::string& variable : variables) envp.push_back(variable.data());
  for (char** variable = environ; *variable != nullptr; ++variable) envp.push_back(*variable);
  envp.push_back(nullptr);

  const std::string errors = folder.file("errors");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, errors.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  REQUIRE(posix_spawn(&child, FLASHMLA_TEST_GATE, &actions, nullptr, argv.data(), envp.data()) == 0);
  posix_spawn_file_actions_destroy(&actions);
  int state = 0;
  REQUIRE(waitpid(child, &state, 0) == child);
  Outcome outcome;
  if (WIFEXITED(state)) outcome.exit = WEXITSTATUS(state);
  outcome.errors = read(errors);
  outcome.report = read(folder.file("report.json"));
  return outcome;
}

std::vector<std::string> judge(const char* library) {
  return {"--library", library, "--baseline", FLASHMLA_TEST_BASELINE, "--report", "REPORT"};
}

Outcome run_broken(const std::string& fault) {
  return run_gate(judge(FLASHMLA_TEST_BROKEN), {"FLASHMLA_BROKEN=" + fault});
}

TEST_CASE("gate: the bundled library passes on every instruction set") {
  const char* isa = GENERATE("generic", "avx2", "avx512");
  const Outcome outcome = run_gate(judge(FLASHMLA_TEST_LIBRARY), {std::string("FLASHMLA_CPU_ISA=") + isa});
  CAPTURE(isa, outcome.errors);
  CHECK(outcome.exit == 0);
  CHECK(contains(outcome.report, "\"verdict\": \"pass\""));
  CHECK_FALSE(contains(outcome.report, "\"verdict\": \"fail\""));
  CHECK(contains(outcome.report, "\"schema_version\": 1"));
}

TEST_CASE("gate: the wrapper without a fault passes, so that what it finds below is the fault") {
  CHECK(run_broken("none").exit == 0);
}

TEST_CASE("gate: each fault fails the gate and is named with its cell, its check and both values") {
  struct Expected {
    const char* fault;
    const char* cell;
    const char* check;
    const char* detail;
  };
  const Expected expected = GENERATE(
      Expected{"lse", "cell v4-verify-step", "oracle: lse[0, 7, 7] is ", "the oracle says "},
      Expected{"output", "cell v4-verify-step", "oracle: output[0, 7, 7, 511] is ", "the oracle says "},
      Expected{"nan", "cell v4-verify-step", "oracle: output[0, 7, 7, 0] is nan", "the oracle says "},
      Expected{"one-ulp", "cell v4-verify-step", "padded: differs from the padded baseline: lse[0, 7, 7] is ", "then "},
      Expected{"not-repeatable", "cell v4-verify-step", "repeat: a second run differs: lse[0, 7, 7] is ", "then "},
      Expected{"guard", "cell v4-strided", "guards: an output was written outside the addressed rows", ""},
      Expected{"refuses-valid", "cell v4-verify-step", "status: the candidate refuses a valid call: unsupported", ""},
      Expected{"accepts-invalid", "cell invalid-arguments", "arguments: sparse decode, workspace one byte too small",
               "the status is \"ok\", expected \"workspace too small\""},
      Expected{"writes-when-refusing", "cell invalid-arguments", "arguments: sparse decode, q null",
               "the outputs were written"},
      Expected{"no-message", "cell invalid-arguments", "arguments: ", "it is refused without a message"},
      Expected{"dense-lse", "cell dense-576-causal", "oracle: lse[0, 0, 0] is 123", "the oracle says "});
  const Outcome outcome = run_broken(expected.fault);
  CAPTURE(expected.fault, outcome.errors);
  CHECK(outcome.exit == 4);
  CHECK(contains(outcome.errors, expected.cell));
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
  CHECK(contains(run_gate({"--report"}).errors, "--report expects a value"));
  CHECK(contains(run_gate({"--what", "1"}).errors, "unknown option \"--what\""));
  CHECK(run_gate({"--help"}).exit == 0);
}

TEST_CASE("gate: the same seed gives the same report, byte for byte") {
  const Folder folder;
  const std::string report = folder.file("fixed.json");
  auto run = [&] {
    const Outcome outcome = run_gate(
        {"--library", FLASHMLA_TEST_LIBRARY, "--baseline", FLASHMLA_TEST_BASELINE, "--seed", "11", "--report", report});
    REQUIRE(outcome.exit == 0);
    return read(report);
  };
  const std::string first = run();
  CHECK(first == run());
}

TEST_CASE("gate: case names are unique and the sets cover what they promise") {
  const CaseSet set = GENERATE(CaseSet::kQuick, CaseSet::kFull);
  std::set<std::string> names;
  std::set<int> formats, heads, sinks, query_tokens;
  for (const Case& one : make_cases(set, 1)) {
    CHECK(names.insert(one.name).second);
    if (one.dense) continue;
    formats.insert(one.format);
    heads.insert(one.num_heads);
    sinks.insert(static_cast<int>(one.sink));
    query_tokens.insert(one.s_q);
  }
  CHECK(formats.size() == 4);
  CHECK(sinks.size() == 5);
  for (const int count : {1, 2, 5, 8, 16, 64, 128}) CHECK(heads.count(count) == 1);
  CHECK(query_tokens.count(1) == 1);
  CHECK(query_tokens.count(16) == 1);
}

TEST_CASE("gate: a report without cells is no pass") {
  CHECK_FALSE(Report{}.passed());
}

}  // namespace
}  // namespace flashmla::gate
