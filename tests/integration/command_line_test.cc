// What a person or a workflow types.
#include "orchestrator/base/file.h"
#include "tests/integration/small_checkout.h"
#include "tests/support/catch.h"
#include "tests/support/environment.h"

using namespace sweep;
using namespace sweep::test;

TEST_CASE("command line: help and version are results, not errors") {
  const SmallCheckout checkout;
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--help"}, {"run", "--help"}, {"validate", "--help"}, {"kernels", "gate", "--help"}}) {
    const Ran ran = checkout.sweepctl(arguments);
    CHECK(ran.code == 0);
    CHECK(contains(ran.output, "Usage:"));
  }
  const Ran version = checkout.sweepctl({"--version"});
  CHECK(version.code == 0);
  CHECK(version.output.starts_with("sweepctl "));
}

TEST_CASE("command line: wrong usage exits with 2 and names the nearest word") {
  const SmallCheckout checkout;
  const Ran command = checkout.sweepctl({"valdate"});
  CHECK(command.code == 2);
  CHECK(contains(command.output, "did you mean \"validate\""));
  const Ran option = checkout.sweepctl({"run", "--resum"});
  CHECK(option.code == 2);
  CHECK(contains(option.output, "did you mean \"--resume\""));
  CHECK(checkout.sweepctl({"run", "--seed", "x"}).code == 2);
  CHECK(checkout.sweepctl({"--format", "yaml", "validate"}).code == 2);
  CHECK(checkout.sweepctl({"kernels", "build", "--arch", "sm_1"}).code == 2);
}

TEST_CASE("command line: explain knows every rule that diagnostics name") {
  const SmallCheckout checkout;
  const Ran known = checkout.sweepctl({"explain", "judge/acceptance"});
  CHECK(known.code == 0);
  CHECK(contains(known.output, "1 + accepted draft tokens / verification steps"));
  const Ran unknown = checkout.sweepctl({"explain", "judge/acceptence"});
  CHECK(unknown.code == 2);
  CHECK(contains(unknown.output, "did you mean \"judge/acceptance\""));
  const Ran list = checkout.sweepctl({"explain", "--list", "--format", "json"});
  CHECK(nlohmann::json::parse(list.output).size() > 50);
}

TEST_CASE("command line: explain shows a wrong and a right example") {
  const SmallCheckout checkout;
  const Ran text = checkout.sweepctl({"explain", "matrix/draft-tokens"});
  CHECK(contains(text.output, "Wrong, in a search space:"));
  CHECK(contains(text.output, "Right:"));
  const Ran json = checkout.sweepctl({"explain", "matrix/draft-tokens", "--format", "json"});
  CHECK(nlohmann::json::parse(json.output)["example"]["bad"].is_string());
}

TEST_CASE("command line: schema prints JSON Schema, or the reference page") {
  const SmallCheckout checkout;
  const Ran schema = checkout.sweepctl({"schema", "matrix"});
  CHECK(schema.code == 0);
  CHECK(nlohmann::json::parse(schema.output)["$schema"] == "http://json-schema.org/draft-07/schema#");
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"schema", "recipe", "--markdown"}, {"schema", "recipe", "--format", "markdown"}}) {
    const Ran page = checkout.sweepctl(arguments);
    CHECK(page.code == 0);
    CHECK(contains(page.output, "| field | value | default | meaning |"));
  }
  CHECK(checkout.sweepctl({"schema", "matrx"}).code == 2);
  CHECK(checkout.sweepctl({"schema"}).code == 2);
}

TEST_CASE("command line: SARIF is a format of validate, and of nothing else") {
  const SmallCheckout checkout;
  checkout.edit("matrix/embedded.yaml", "length: 5.7", "length: 9");
  const Ran sarif = checkout.sweepctl({"validate", "--format", "sarif"});
  CHECK(sarif.code == 1);
  CHECK(nlohmann::json::parse(sarif.output)["runs"][0]["results"][0]["ruleId"] == "acceptance/out-of-range");
  const Ran plan = checkout.sweepctl({"plan", "--format", "sarif"});
  CHECK(plan.code == 2);
  CHECK(contains(plan.output, "--format sarif is a format of `sweepctl validate` only"));
  CHECK(checkout.sweepctl({"validate", "--format", "markdown"}).code == 2);
}

TEST_CASE("command line: bash completes sub-commands, options and their words") {
  const SmallCheckout checkout;
  const auto completed = [&](const std::string& words, int current) {
    const std::string script = SWEEPCTL_PROGRAMS "/sweepctl completion bash";
    exec::CommandSpec bash{.argv = {"bash", "-c",
                                    "eval \"$(" + script + ")\"; COMP_WORDS=(" + words + "); COMP_CWORD=" +
                                        std::to_string(current) + "; _sweepctl; echo \"${COMPREPLY[@]}\""},
                           .output = checkout.root() / "completed.txt"};
    std::filesystem::remove(bash.output);  // runs append
    REQUIRE(exec::run(bash, std::chrono::minutes(1), {}).value().ok());
    return base::read_file(bash.output).value();
  };
  CHECK(completed("sweepctl valid", 1) == "validate\n");
  CHECK(contains(completed("sweepctl plan full", 2), "full-sweep"));
  CHECK(completed("sweepctl validate --kind mat", 3) == "matrix\n");
  CHECK(completed("sweepctl schema res", 2) == "result\n");
  CHECK(completed("sweepctl explain matrix/draft", 2) == "matrix/draft-tokens\n");
  CHECK(contains(completed("sweepctl validate --form", 2), "--format"));
  CHECK(checkout.sweepctl({"completion", "tcsh"}).code == 2);
  for (const char* shell : {"zsh", "fish"}) CHECK(checkout.sweepctl({"completion", shell}).code == 0);
}

TEST_CASE("command line: validate writes JSON or annotations when asked") {
  const SmallCheckout checkout;
  CHECK(checkout.sweepctl({"validate"}).code == 0);
  checkout.edit("matrix/embedded.yaml", "length: 5.7", "length: 9");
  const Ran json = checkout.sweepctl({"validate", "--format", "json"});
  CHECK(json.code == 1);
  const auto document = nlohmann::json::parse(json.output);
  CHECK(document["errors"] == 1);
  CHECK(document["diagnostics"][0]["rule"] == "acceptance/out-of-range");
  CHECK(document["diagnostics"][0]["file"] == "matrix/embedded.yaml");
  const Ran github = checkout.sweepctl({"validate", "--format", "github"});
  CHECK(github.code == 1);
  CHECK(contains(github.output, "::error file=matrix/embedded.yaml,line="));
}

TEST_CASE("command line: plan lists each point, as a table and as JSON") {
  const SmallCheckout checkout;
  const Ran table = checkout.sweepctl({"plan"});
  CHECK(table.code == 0);
  CHECK(contains(table.output, kEntry));
  const auto jobs = nlohmann::json::parse(checkout.sweepctl({"plan", "--format", "json"}).output);
  REQUIRE(jobs.size() == 1);
  CHECK(jobs[0]["isl"] == kSmallIsl);
}

TEST_CASE("command line: doctor says what can run here") {
  const SmallCheckout checkout;
  const Ran ran = checkout.sweepctl({"doctor"});
  CHECK(ran.code == 0);
  CHECK(contains(ran.output, "+ embedded-dspark-8k256"));
  const auto json = nlohmann::json::parse(checkout.sweepctl({"doctor", "--format", "json"}).output);
  CHECK(json["entries"][0]["can_run"] == true);
}

TEST_CASE("command line: kernels for a GPU say what this host lacks, with the exit code for a retry") {
  const SmallCheckout checkout;
  const EnvironmentVariable nvcc("CUDACXX", "/bin/true");
  const Ran build = checkout.sweepctl({"kernels", "build", "--arch", "sm_103a"});
  INFO(build.output);
  CHECK(build.code == 3);
  CHECK(contains(build.output, "[kernels/no-nvcc]"));
  CHECK(contains(build.output, "nvcc 12.9 or newer"));
  const Ran gate = checkout.sweepctl({"kernels", "gate", "--arch", "sm_90a"});
  INFO(gate.output);
  CHECK(gate.code == 3);
  if (contains(gate.output, "[kernels/no-nvcc]")) SWEEP_SKIP("this host has an NVIDIA driver");
  CHECK(contains(gate.output, "[kernels/no-gpu]"));
}

TEST_CASE("command line: kernels bench times the CPU backend and keeps the figures with what was measured") {
  const SmallCheckout checkout;
  const std::filesystem::path folder = checkout.root() / "figures";
  const Ran ran = checkout.sweepctl({"-q", "kernels", "bench", "--shape", "decode", "--out", folder.string()});
  CAPTURE(ran.output);
  REQUIRE(ran.code == 0);
  CHECK(contains(ran.output, "decode "));
  CHECK(contains(ran.output, "GFLOP/s"));
  const auto figures = nlohmann::json::parse(base::read_file(folder / "bench.json").value(), nullptr, false);
  CHECK(figures["mode"] == "cpu");
  CHECK(figures["shapes"].size() == 1);
  CHECK(figures["kernels"]["library_sha256"].get<std::string>().size() == 64);
}

TEST_CASE("command line: kernels bench on a GPU says what this host lacks, and options of GPUs are not of the CPU") {
  const SmallCheckout checkout;
  const Ran bench = checkout.sweepctl({"kernels", "bench", "--arch", "sm_90a", "--quick"});
  if (!contains(bench.output, "[kernels/no-gpu]")) SWEEP_SKIP("this host has an NVIDIA driver");
  CHECK(bench.code == 3);
  CHECK(checkout.sweepctl({"kernels", "bench", "--quick"}).code == 2);
  CHECK(checkout.sweepctl({"kernels", "bench", "--arch", "sm_90a", "--section", "A,Q"}).code == 2);
  CHECK(checkout.sweepctl({"kernels", "bench", "--arch", "sm_90a", "--heads", "0"}).code == 2);
  const Ran shape = checkout.sweepctl({"-q", "kernels", "bench", "--shape", "nowhere"});
  CHECK(shape.code == 2);
  CHECK(contains(shape.output, "there is no shape \"nowhere\""));
}

TEST_CASE("command line: kernels build is found the second time and reports the same digest") {
  const SmallCheckout checkout;
  const auto first = nlohmann::json::parse(checkout.sweepctl({"-q", "kernels", "build", "--format", "json"}).output);
  const auto second = nlohmann::json::parse(checkout.sweepctl({"-q", "kernels", "build", "--format", "json"}).output);
  CHECK(first == second);
  CHECK(first["library_sha256"].get<std::string>().size() == 64);
}

TEST_CASE("command line: several processes that make the same model at once all succeed") {
  const SmallCheckout checkout;
  std::vector<exec::Process> makers;
  for (int i = 0; i < 4; ++i)
    makers.push_back(exec::Process::start({.argv = {SWEEPCTL_PROGRAMS "/sweepctl-embedded", "make-model",
                                                    (checkout.root() / "model").string()}})
                         .value());
  for (exec::Process& maker : makers) CHECK(maker.wait(std::chrono::minutes(2), {}).value().ok());
  CHECK(checkout
            .sweepctl({"weights", "verify", (checkout.root() / "model").string(), "--pin",
                       (checkout.root() / "matrix/models/embedded-mla-8h.json").string()})
            .code == 0);
}

TEST_CASE("command line: output through a pipe has no escape sequences") {
  const SmallCheckout checkout;
  checkout.edit("matrix/embedded.yaml", "length: 5.7", "length: 9");
  CHECK_FALSE(contains(checkout.sweepctl({"validate"}).output, "\x1b"));
}

TEST_CASE("command line: outside a checkout the commands that need one say so") {
  const SmallCheckout checkout;
  exec::CommandSpec command = checkout.command({"plan"});
  command.argv.back() = "/";  // --root /
  const auto status = exec::run(command, std::chrono::minutes(1), {}).value();
  CHECK(status.code == 3);
  CHECK(contains(base::read_file(command.output).value(), "[cli/no-checkout]"));
}

TEST_CASE("command line: outside a checkout, files that are named are planned and validated") {
  const SmallCheckout checkout;
  const std::string matrix = (checkout.root() / "matrix/embedded.yaml").string();
  const std::string runners = (checkout.root() / "matrix/runners.yaml").string();
  const auto run_in_root = [&](std::vector<std::string> arguments) {
    exec::CommandSpec command = checkout.command(std::move(arguments));
    command.argv.resize(command.argv.size() - 2);  // without --root
    command.argv.insert(command.argv.begin(), {"env", "--chdir=/"});
    const auto status = exec::run(command, std::chrono::minutes(1), {}).value();
    return Ran{status.code, base::read_file(command.output).value()};
  };
  const Ran plan = run_in_root({"plan", "full-sweep", "--config-files", matrix, "--runner-config", runners});
  CHECK(plan.code == 1);  // the entry names a recipe, and there is none here
  CHECK(contains(plan.output, "[binding/recipe-missing]"));
  CHECK(run_in_root({"validate", runners}).code == 0);
}
