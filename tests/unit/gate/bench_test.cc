#include "orchestrator/gate/bench.h"

#include <filesystem>

#include "orchestrator/base/file.h"
#include "orchestrator/base/temp_dir.h"
#include "orchestrator/diag/rules/kernels.h"
#include "tests/support/catch.h"

using namespace sweep;
namespace fs = std::filesystem;

namespace {

// Runs a script in place of the benchmark: it finds the path of the figures as its 2nd argument.
class ScriptedBench {
 public:
  diag::Result<gate::BenchReport> run(const std::string& script, gate::BenchRequest request = {}) {
    request.program = folder_.path() / "bench.sh";
    request.folder = folder_.path();
    const std::string text = "#!/bin/sh\necho \"$@\" > " + (folder_.path() / "arguments").string() + "\nfigures=$2\n";
    REQUIRE(base::write_file_atomic(request.program, text + script + "\n").has_value());
    fs::permissions(request.program, fs::perms::owner_all);
    return gate::run_bench(build_, request, {});
  }
  std::string arguments() const { return base::read_file(folder_.path() / "arguments").value(); }
  std::string path(const char* name) const { return (folder_.path() / name).string(); }
  gate::KernelBuild& build() { return build_; }

 private:
  base::TempDir folder_ = base::TempDir::create().value();
  gate::KernelBuild build_{.arch = gate::Arch::kSm90a,
                           .content_id = "0123",
                           .library = "/l.so",
                           .library_sha256 = "abc",
                           .baseline = "/b.so",
                           .plain_read = "/p.cubin"};
};

constexpr const char* kAll = R"(echo '{"schema_version":1,"shapes":[{"name":"a"}],"complete":true}' > "$figures")";
constexpr const char* kSome =
    R"(echo '{"schema_version":1,"shapes":[{"name":"a"}],"complete":false}' > "$figures"
echo "flashmla-bench: not every shape was measured" >&2
exit 3)";

}  // namespace

TEST_CASE("bench: the figures carry the digests of what was measured") {
  ScriptedBench scripted;
  const auto report = scripted.run(kAll).value();
  CHECK(report.complete);
  CHECK(report.problem.empty());
  CHECK(report.document["kernels"]["library_sha256"] == "abc");
  CHECK(report.document["kernels"]["content_id"] == "0123");
  const auto written = nlohmann::json::parse(base::read_file(report.path).value(), nullptr, false);
  CHECK(written == report.document);
}

TEST_CASE("bench: the program is told what to measure") {
  ScriptedBench scripted;
  REQUIRE(
      scripted
          .run(kAll, {.sections = {"A", "transition"}, .shape = "v4", .heads = {8, 16}, .replays = 3, .quick = true})
          .has_value());
  CHECK(scripted.arguments() == "--json " + scripted.path("bench.json") +
                                    " --shape v4 --library /l.so --plain-read /p.cubin --section A,transition "
                                    "--heads 8,16 --replays 3 --quick --baseline /b.so --plot " +
                                    scripted.path("transition.svg") + "\n");
  REQUIRE(scripted.run(kAll).has_value());
  CHECK(scripted.arguments() == "--json " + scripted.path("bench.json") + " --library /l.so --plain-read /p.cubin\n");
}

TEST_CASE("bench: on the CPU the program times its own copy of the backend") {
  ScriptedBench scripted;
  scripted.build().arch = gate::Arch::kCpu;
  const auto report = scripted.run(kAll, {.shape = "verify"}).value();
  CHECK(scripted.arguments() == "--json " + scripted.path("bench.json") + " --shape verify\n");
  CHECK(report.plot.empty());
}

TEST_CASE("bench: shapes that were not measured leave the figures of the others") {
  ScriptedBench scripted;
  const auto report = scripted.run(kSome).value();
  CHECK_FALSE(report.complete);
  CHECK(report.problem == "not every shape was measured");
  CHECK(report.document["kernels"]["library_sha256"] == "abc");
}

TEST_CASE("bench: the program's complaint about its arguments is passed on") {
  ScriptedBench scripted;
  const auto report =
      scripted.run("echo 'flashmla-bench: no shape is called \"x\"' >&2; echo >&2; echo usage: >&2; exit 2");
  REQUIRE_FALSE(report.has_value());
  CHECK(report.error().rule == diag::rule::kernels_bench_usage);
  CHECK(report.error().message == "no shape is called \"x\"");
}

TEST_CASE("bench: without figures there is no report, whatever the program says") {
  ScriptedBench scripted;
  const std::string script =
      GENERATE(std::string("exit 0"), std::string("echo '{' > \"$figures\""),
               std::string("echo '{\"complete\":true}' > \"$figures\""),
               std::string("echo '{\"shapes\":[],\"complete\":false}' > \"$figures\""), std::string(kAll) + "; exit 70",
               std::string("kill -SEGV $$"), std::string("exit 3"));
  const auto report = scripted.run(script);
  INFO(script);
  REQUIRE_FALSE(report.has_value());
  CHECK(report.error().rule == diag::rule::kernels_bench_broken);
}

TEST_CASE("bench: a GPU that cannot be used is named in the program's words") {
  ScriptedBench scripted;
  const auto report = scripted.run("echo 'flashmla-bench: cannot load \"libcuda.so.1\"' >&2; exit 3");
  REQUIRE_FALSE(report.has_value());
  CHECK(report.error().message == "cannot load \"libcuda.so.1\"");
}

TEST_CASE("bench: figures of an earlier run are not taken for this one's") {
  ScriptedBench scripted;
  REQUIRE(scripted.run(kAll).has_value());
  CHECK_FALSE(scripted.run("exit 0").has_value());
}
