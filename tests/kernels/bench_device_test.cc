// flashmla-bench as a process: against a driver and a library that stand in for a GPU, and without a driver.
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/test_dir.h"

namespace {

namespace fs = std::filesystem;

struct Outcome {
  int exit = -1;
  std::string out, errors, plot;
  nlohmann::json report;  // discarded if there is none
};

class Bench {
 public:
  Bench() { folder_.write("kernels.cubin", "a cubin"); }

  // With the stand-ins; `environment` is added to ours.
  Outcome run(const std::vector<std::string>& more, std::vector<std::string> environment = {}) const {
    environment.push_back("LD_LIBRARY_PATH=" FLASHMLA_TEST_FAKE_DRIVER);
    return start(more, std::move(environment));
  }
  Outcome run_without_driver() const { return start({"--section", "A"}, {"LD_LIBRARY_PATH="}); }

 private:
  Outcome start(const std::vector<std::string>& more, std::vector<std::string> environment) const {
    std::vector<std::string> arguments = {FLASHMLA_TEST_BENCH,
                                          "--library",
                                          FLASHMLA_TEST_STAND_IN_LIBRARY,
                                          "--plain-read",
                                          (folder_ / "kernels.cubin").string(),
                                          "--json",
                                          (folder_ / "bench.json").string(),
                                          "--plot",
                                          (folder_ / "plot.svg").string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    std::vector<char*> argv, envp;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    for (std::string& variable : environment) envp.push_back(variable.data());
    for (char** variable = environ; *variable != nullptr; ++variable) {
      if (std::string(*variable).rfind("LD_LIBRARY_PATH=", 0) != 0) envp.push_back(*variable);
    }
    envp.push_back(nullptr);
    const std::string out = (folder_ / "out").string(), errors = (folder_ / "errors").string();
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    pid_t child = 0;
    REQUIRE(posix_spawn(&child, FLASHMLA_TEST_BENCH, &actions, nullptr, argv.data(), envp.data()) == 0);
    posix_spawn_file_actions_destroy(&actions);
    int state = 0;
    REQUIRE(waitpid(child, &state, 0) == child);
    Outcome outcome;
    if (WIFEXITED(state)) outcome.exit = WEXITSTATUS(state);
    const auto text = [this](const char* name) { return fs::exists(folder_ / name) ? folder_.read(name) : ""; };
    outcome.out = text("out");
    outcome.errors = text("errors");
    outcome.plot = text("plot.svg");
    outcome.report = nlohmann::json::parse(text("bench.json"), nullptr, false);
    return outcome;
  }

  sweep::test::TestDir folder_;
};

TEST_CASE("bench on a device: every kind of cache is timed, and the plain read reads the bytes of the call") {
  const Bench bench;
  const Outcome outcome = bench.run({"--section", "A,B,C,F,N", "--shape", "/sq1/b1", "--quick", "--replays", "3"},
                                    {"FAKE_CUDA_NAME=NVIDIA H200"});
  CAPTURE(outcome.out, outcome.errors);
  REQUIRE(outcome.exit == 0);
  REQUIRE(outcome.report.is_object());
  CHECK(outcome.report["complete"] == true);
  CHECK(outcome.report["shapes"].size() >= 10);
  for (const auto& shape : outcome.report["shapes"]) {
    CAPTURE(shape["name"].get<std::string>());
    CHECK(shape["error"].is_null());
    // A graph of the fake driver takes 0.125 ms.
    const auto launches = shape["cold"]["launches_per_graph"].get<double>();
    CHECK(shape["cold"]["us"].get<double>() == Approx(125 / launches));
    CHECK(launches >= shape["cold_sets"].get<double>());
    CHECK(shape["plain_read"]["us"].get<double>() > 0);
  }
  CHECK(contains(outcome.out, "dense-1024/h16/sq1/b1"));
  CHECK(contains(outcome.out, "v41fp4-128+512/h8/sq1/b1"));
}

TEST_CASE("bench on a device: a plain read of other bytes is no floor") {
  const Outcome outcome = Bench().run({"--shape", "v4-128/h8/sq1/b1"}, {"FAKE_CUDA_WRONG_FOLD=1"});
  CHECK(outcome.exit == 3);
  CHECK(contains(outcome.out, "not measured: the plain read does not read the bytes it should"));
}

TEST_CASE("bench on a device: a result that is not written is no measurement") {
  const Outcome outcome = Bench().run({"--shape", "v4-128/h8/sq1/b1"}, {"STAND_IN_FORGETS_LAST_LSE=1"});
  CHECK(outcome.exit == 3);
  CHECK(contains(outcome.out, "not measured: LSE 7 of 8 was not written, or is not finite"));
  REQUIRE(outcome.report.is_object());
  CHECK(outcome.report["shapes"][0]["cold"].is_null());
}

TEST_CASE("bench on a device: what the library refuses is named, the rest is measured") {
  const Outcome outcome = Bench().run({"--section", "B", "--shape", "/sq1/b1", "--heads", "8,128", "--quick"},
                                      {"STAND_IN_REFUSES_128_HEADS=1"});
  CHECK(outcome.exit == 3);
  CHECK(contains(outcome.out, "not measured: refused: no 128 heads"));
  REQUIRE(outcome.report.is_object());
  CHECK(outcome.report["complete"] == false);
  CHECK(outcome.report["shapes"][0]["error"].is_null());
  CHECK(outcome.report["shapes"][1]["error"] == "refused: no 128 heads");
}

TEST_CASE("bench on a device: the transition sweep has all query rows, with the baseline's") {
  const Outcome outcome =
      Bench().run({"--section", "transition", "--baseline", FLASHMLA_TEST_STAND_IN_LIBRARY, "--replays", "1"});
  CAPTURE(outcome.out, outcome.errors);
  REQUIRE(outcome.exit == 0);
  REQUIRE(outcome.report.is_object());
  REQUIRE(outcome.report["transition"].size() == 11);
  CHECK(outcome.report["transition"][10]["query_rows"] == 1024);
  CHECK(outcome.report["transition"][10]["gain_8_over_padded64"] == 1.0);
  CHECK(contains(outcome.plot, "16 heads, over the build that pads"));
  CHECK(outcome.report["shapes"].empty());
}

TEST_CASE("bench without a driver says so, with the status that a retry elsewhere may help") {
  if (::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) != nullptr) SWEEP_SKIP("this host has a CUDA driver");
  const Outcome outcome = Bench().run_without_driver();
  CHECK(outcome.exit == 3);
  CHECK(contains(outcome.errors, "libcuda.so.1"));
  CHECK(outcome.report.is_discarded());
}

TEST_CASE("bench on a device refuses the library of the CPU, which would be handed pointers of a device") {
  const Outcome outcome = Bench().run({"--baseline", FLASHMLA_TEST_LIBRARY});
  CHECK(outcome.exit == 3);
  CHECK(contains(outcome.errors, "it is built for the CPU"));
}

TEST_CASE("bench with a library that cannot be loaded says which") {
  const Outcome outcome = Bench().run({"--baseline", "/nowhere/libflashmla.so"});
  CHECK(outcome.exit == 3);
  CHECK(contains(outcome.errors, "\"/nowhere/libflashmla.so\""));
}

}  // namespace
