#include "orchestrator/pipeline/run_folder.h"

#include <nlohmann/json.hpp>

#include "orchestrator/base/temp_dir.h"
#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/run.h"
#include "tests/support/catch.h"

using namespace sweep;
using pipeline::RunFolder;
namespace fs = std::filesystem;
namespace stage_file = pipeline::stage_file;

TEST_CASE("run folder: a stage's document comes back as it was written, and an absent one is no error") {
  auto parent = base::TempDir::create().value();
  const auto folder = RunFolder::open(parent.path() / "run", false).value();
  CHECK_FALSE(folder.read(stage_file::kWeights).value().has_value());
  REQUIRE(folder.write(stage_file::kWeights, {{"a", 1}}).has_value());
  CHECK(*folder.read(stage_file::kWeights).value() == nlohmann::json{{"a", 1}});
}

TEST_CASE("run folder: a stage file of another version, or a damaged one, is not taken for a finished stage") {
  auto parent = base::TempDir::create().value();
  const auto folder = RunFolder::open(parent.path() / "run", false).value();
  for (const char* text : {"{", "[]", "{}", "{\"schema_version\": 99}", ""}) {
    INFO(text);
    REQUIRE(folder.write_text(stage_file::kKernels, text).has_value());
    const auto read = folder.read(stage_file::kKernels);
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().rule == diag::rule::file_malformed);
  }
}

TEST_CASE("run folder: one process at a time, and a new run does not take a folder that holds one") {
  auto parent = base::TempDir::create().value();
  const fs::path path = parent.path() / "run";
  {
    const auto folder = RunFolder::open(path, false).value();
    REQUIRE(folder.write(stage_file::kPlan, {}).has_value());
    const auto second = RunFolder::open(path, true);
    REQUIRE_FALSE(second.has_value());
    CHECK(second.error().rule == diag::rule::run_in_use);
  }
  CHECK(RunFolder::open(path, true).has_value());
  const auto fresh = RunFolder::open(path, false);
  REQUIRE_FALSE(fresh.has_value());
  CHECK(fresh.error().rule == diag::rule::run_exists);
}

TEST_CASE("run folder: a path that cannot be a folder is a diagnostic") {
  auto parent = base::TempDir::create().value();
  REQUIRE(base::write_file_atomic(parent.path() / "file", "x").has_value());
  const auto folder = RunFolder::open(parent.path() / "file" / "run", false);
  REQUIRE_FALSE(folder.has_value());
  CHECK(folder.error().rule == diag::rule::file_unwritable);
}

TEST_CASE("run folder: unfinished temporary files are removed, attempts are kept apart and counted") {
  auto parent = base::TempDir::create().value();
  const fs::path path = parent.path() / "run";
  REQUIRE(base::make_directories(path).has_value());
  REQUIRE(base::write_file_atomic(path / ".result.json.Ab12Cd", "half").has_value());
  const auto folder = RunFolder::open(path, false).value();
  CHECK_FALSE(fs::exists(path / ".result.json.Ab12Cd"));
  REQUIRE(folder.set_attempt_aside().has_value());
  CHECK_FALSE(fs::exists(path / "attempt-1"));  // nothing to keep
  for (const char* attempt : {"attempt-1", "attempt-2"}) {
    REQUIRE(folder.write_text(stage_file::kRequestsPartial, attempt).has_value());
    REQUIRE(folder.set_attempt_aside().has_value());
    CHECK(base::read_file(path / attempt / stage_file::kRequestsPartial).value() == attempt);
  }
}
