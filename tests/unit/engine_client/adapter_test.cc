#include "orchestrator/engine/adapter.h"

#include <algorithm>

#include "tests/support/catch.h"

using namespace sweep;

namespace {

plan::Job job(plan::Acceptance acceptance) {
  plan::Job job;
  job.model = "org/model";
  job.revision = std::string(40, 'a');
  job.isl = 8192;
  job.osl = 256;
  job.num_draft_tokens = 7;
  job.acceptance = acceptance;
  job.engine_flags = {{"tp-size", "8"},
                      {"disable-radix-cache", "true", true},
                      {"enable-x", "false", true},
                      {"text", "false"},
                      {"revision", "r"}};
  job.environment = {{"SGLANG_RAGGED_VERIFY_MODE", "static"}};
  return job;
}

engine::Launch render(std::string_view framework, const plan::Job& job) {
  const engine::Framework* found = engine::find_framework(framework);
  REQUIRE(found != nullptr);
  return found
      ->render({.job = job,
                .model_folder = "/models/m",
                .kernel_library = "/cache/lib.so",
                .program_folder = "/bin",
                .run_folder = "/run",
                .seed = 3})
      .value();
}

bool has(const std::vector<std::string>& argv, std::vector<std::string> part) {
  return std::search(argv.begin(), argv.end(), part.begin(), part.end()) != argv.end();
}

bool has_variable(const engine::Launch& launch, const std::string& name, const std::string& value) {
  return std::count(launch.command.environment.begin(), launch.command.environment.end(), std::pair(name, value)) == 1;
}

}  // namespace

TEST_CASE("engine: the embedded engine gets the acceptance as its own options") {
  const auto launch = render("embedded", job({plan::AcceptanceSource::kExplicit, 5.7}));
  CHECK(has(launch.command.argv, {"--acceptance", "explicit", "--acceptance-length", "5.7"}));
  CHECK(has(launch.command.argv, {"--kernels", "/cache/lib.so"}));
  CHECK(has(launch.command.argv, {"--num-draft-tokens", "7"}));
  CHECK(launch.port_file.has_value());
  const auto measured = render("embedded", job({plan::AcceptanceSource::kMeasured, std::nullopt}));
  CHECK(has(measured.command.argv, {"--acceptance", "measured"}));
}

TEST_CASE("engine: SGLang gets the acceptance length, bonus token counted, by environment") {
  const auto launch = render("sglang", job({plan::AcceptanceSource::kExplicit, 5.7}));
  CHECK(has_variable(launch, "SGLANG_SIMULATE_ACC_LEN", "5.7"));
  CHECK(has_variable(launch, "SGLANG_SIMULATE_ACC_METHOD", "match-expected"));
  CHECK(has_variable(launch, "SGLANG_SIMULATE_ACC_TOKEN_MODE", "real-draft-token"));
  CHECK(has_variable(launch, "SGLANG_RAGGED_VERIFY_MODE", "static"));
  const auto measured = render("sglang", job({plan::AcceptanceSource::kMeasured, std::nullopt}));
  for (const auto& [name, value] : measured.command.environment) CHECK_FALSE(contains(name, "SIMULATE"));
}

TEST_CASE("engine: recipe flags become arguments; a switch is a bare flag or nothing") {
  const auto launch = render("sglang", job({plan::AcceptanceSource::kExplicit, 5.7}));
  CHECK(has(launch.command.argv, {"--tp-size", "8"}));
  CHECK(std::count(launch.command.argv.begin(), launch.command.argv.end(), "--disable-radix-cache") == 1);
  CHECK(std::count(launch.command.argv.begin(), launch.command.argv.end(), "--enable-x") == 0);
  CHECK(has(launch.command.argv, {"--text", "false"}));
  CHECK(std::count(launch.command.argv.begin(), launch.command.argv.end(), "--revision") == 1);
}

TEST_CASE("engine: an unknown framework has no adapter") {
  CHECK(engine::find_framework("no-such-engine") == nullptr);
}
