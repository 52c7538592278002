#include "orchestrator/engine/running.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "orchestrator/base/temp_dir.h"
#include "orchestrator/exec/marked.h"
#include "tests/support/catch.h"
#include "tests/support/http_server.h"

using namespace sweep;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

std::string_view slug(const diag::Diagnostic& diagnostic) {
  return diag::rule_info(diagnostic.rule).slug;
}

}  // namespace

TEST_CASE("running: an engine whose port is taken is not started at all") {
  const auto folder = base::TempDir::create().value();
  const test::HttpServer other(
      [](const test::HttpRequest&, test::Reply& reply) { reply.whole(200, "text/plain", ""); });
  engine::Launch launch;
  launch.base_url = other.url();
  launch.command = {.argv = {"touch", (folder.path() / "started").string()}, .output = folder.path() / "engine.log"};
  const auto started = engine::RunningEngine::start(launch, 10s, {});
  REQUIRE_FALSE(started.has_value());
  CHECK(slug(started.error()) == "engine/port-taken");
  CHECK_FALSE(std::filesystem::exists(folder.path() / "started"));
}

TEST_CASE("running: an engine that ends at once is told from one that is slow") {
  const auto folder = base::TempDir::create().value();
  engine::Launch launch;
  launch.port_file = folder.path() / "engine.port";
  launch.command = {.argv = {"false"}, .output = folder.path() / "engine.log"};
  const auto ended = engine::RunningEngine::start(launch, 10s, {});
  REQUIRE_FALSE(ended.has_value());
  CHECK(slug(ended.error()) == "engine/died");
  CHECK(contains(ended.error().message, "exit status 1"));
  launch.command.argv = {"sleep", "1000"};
  const auto slow = engine::RunningEngine::start(launch, 0s, {});
  REQUIRE_FALSE(slow.has_value());
  CHECK(slug(slow.error()) == "engine/not-ready");
}

TEST_CASE("running: the files that the command reads are there before it starts") {
  const auto folder = base::TempDir::create().value();
  engine::Launch launch;
  launch.port_file = folder.path() / "engine.port";
  launch.files = {{folder.path() / "options.yaml", "a: 1\n"}};
  launch.command = {.argv = {"cat", (folder.path() / "options.yaml").string()}, .output = folder.path() / "engine.log"};
  const auto ended = engine::RunningEngine::start(launch, 10s, {});
  REQUIRE_FALSE(ended.has_value());
  CHECK(contains(ended.error().message, "exit status 0"));
}

TEST_CASE("running: what an earlier run left is ended by its mark, and by nothing else") {
  const std::string mark = "running-test-" + std::to_string(::getpid());
  auto left = exec::Process::start({.argv = {"sleep", "1000"}, .environment = {{exec::kMarkVariable, mark}}}).value();
  while (exec::marked_processes(mark).empty()) ::usleep(1000);
  engine::end_left_behind({{"mark", mark + "x"}, {"pid", left.pid()}, {"pid_start_time", 1}});
  CHECK_FALSE(left.poll().has_value());
  for (const json& odd : {json(nullptr), json::array(), json{{"pid", "7"}, {"mark", 7}, {"container", "docker"}},
                          json{{"container", {{"runtime", "rm"}, {"name", "-rf"}}}}})
    engine::end_left_behind(odd);
  CHECK_FALSE(left.poll().has_value());
  engine::end_left_behind({{"mark", mark}});
  CHECK(left.wait(10s, {}).has_value());
}
