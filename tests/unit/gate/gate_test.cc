#include "orchestrator/gate/gate.h"

#include <filesystem>

#include "orchestrator/base/file.h"
#include "orchestrator/base/temp_dir.h"
#include "orchestrator/diag/rules/kernels.h"
#include "tests/support/catch.h"

using namespace sweep;
namespace fs = std::filesystem;

namespace {

// Runs a script in place of the gate program: it finds the report's path as its 6th argument.
class ScriptedGate {
 public:
  diag::Result<gate::GateReport> run(const std::string& script) {
    const fs::path program = folder_.path() / "gate.sh";
    REQUIRE(base::write_file_atomic(program, "#!/bin/sh\nreport=$6\n" + script + "\n").has_value());
    fs::permissions(program, fs::perms::owner_all);
    return gate::run_gate(build_, {.program = program, .folder = folder_.path()}, {});
  }
  const gate::KernelBuild& build() const { return build_; }

 private:
  base::TempDir folder_ = base::TempDir::create().value();
  gate::KernelBuild build_{.content_id = "0123", .library = "/l.so", .baseline = "/b.so"};
};

constexpr const char* kPass = R"(echo '{"verdict":"pass","cells":[{"name":"a","verdict":"pass"}]}' > "$report")";
constexpr const char* kFail =
    R"(echo '{"verdict":"fail","cells":[{"name":"a","verdict":"pass"},{"name":"lse-tail","verdict":"fail"}]}' > "$report"; exit 4)";

}  // namespace

TEST_CASE("gate: a pass needs exit status, verdict and every cell to agree") {
  ScriptedGate scripted;
  const auto report = scripted.run(kPass).value();
  CHECK(report.passed);
  CHECK(report.cells == 1);
}

TEST_CASE("gate: a failed cell is named") {
  ScriptedGate scripted;
  const auto report = scripted.run(kFail).value();
  CHECK_FALSE(report.passed);
  const diag::Diagnostic diagnostic = gate::gate_failure(scripted.build(), report);
  CHECK(diagnostic.rule == diag::rule::kernels_gate_failed);
  REQUIRE(diagnostic.notes.size() == 1);
  CHECK(contains(diagnostic.notes[0].message, "lse-tail"));
}

TEST_CASE("gate: whatever is not a clear verdict is a broken gate, never a pass") {
  ScriptedGate scripted;
  const std::string script = GENERATE(
      std::string("exit 0"),                                                    // no report
      std::string("echo '{' > \"$report\""),                                    // half a report
      std::string("echo '{\"verdict\":\"pass\",\"cells\":[]}' > \"$report\""),  // nothing was checked
      std::string("echo '{\"verdict\":\"fail\",\"cells\":[{\"name\":\"a\",\"verdict\":\"pass\"}]}' > \"$report\""),
      std::string("echo '{\"verdict\":\"pass\",\"cells\":[{\"name\":\"a\"}]}' > \"$report\""),
      std::string(kPass) + "; exit 3",  // could not run
      std::string("kill -SEGV $$"));
  const auto report = scripted.run(script);
  INFO(script);
  REQUIRE_FALSE(report.has_value());
  CHECK(report.error().rule == diag::rule::kernels_gate_broken);
}

TEST_CASE("gate: a report of an earlier run is not taken for this one's") {
  ScriptedGate scripted;
  REQUIRE(scripted.run(kPass).has_value());
  CHECK_FALSE(scripted.run("exit 0").has_value());
}
