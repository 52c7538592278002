#include "orchestrator/engine/server.h"

#include <nlohmann/json.hpp>

#include "tests/support/catch.h"
#include "tests/support/http_server.h"

using namespace sweep;
using nlohmann::json;

TEST_CASE("server: the version and the KV cache are what the engine says, by endpoint or by log") {
  const json by_info = engine::describe_from({{"version", "0.5.19"}, {"kv_cache_dtype", "fp8_e4m3"}}, nullptr, "");
  CHECK(by_info["version"] == "0.5.19");
  CHECK(by_info["kv_cache"]["dtype"] == "fp8_e4m3");
  CHECK(by_info["kv_cache"]["from"] == "server_info");
  const json by_log = engine::describe_from(
      nullptr, nullptr,
      "(EngineCore_DP0 pid=222) INFO 09-14 11:40:03 [core.py:94] Initializing a V1 LLM engine (v0.30.0) with config: "
      "model='m', kv_cache_dtype=fp8, x=1\n[TP0] DSV4 KV layout: v41, 528 bytes per token\n");
  CHECK(by_log["version"] == "0.30.0");
  CHECK(by_log["kv_cache"]["dtype"] == "fp8");
  CHECK(by_log["kv_cache"]["layout"] == "[TP0] DSV4 KV layout: v41, 528 bytes per token");
  CHECK(by_log["kv_cache"]["from"] == "log");
  const json by_endpoint = engine::describe_from(nullptr, {{"version", "1.2.0"}}, "TensorRT-LLM version: 1.1.0\n");
  CHECK(by_endpoint["version"] == "1.2.0");
  const json nothing = engine::describe_from(nullptr, nullptr, "no such words\n");
  CHECK(nothing["version"].is_null());
  CHECK(nothing["kv_cache"].is_null());
}

TEST_CASE("server: a probe needs a stream of tokens, and says what came instead") {
  std::string reply;
  int status = 200;
  const test::HttpServer server(
      [&](const test::HttpRequest&, test::Reply& out) { out.whole(status, "text/event-stream", reply); });
  const auto probed = [&] {
    return engine::probe({server.url()}, {"/v1/completions", "{}", std::chrono::seconds(10)}, {});
  };
  reply = "data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: [DONE]\n\n";
  CHECK(probed().has_value());
  const auto failure = [&] {
    const auto result = probed();
    REQUIRE_FALSE(result.has_value());
    CHECK(diag::rule_info(result.error().rule).slug == "engine/probe-failed");
    return result.error().message;
  };
  reply = "{\"error\":\"KV cache exhausted\"}";
  CHECK(contains(failure(), "KV cache exhausted"));
  reply = "data: {\"choices\":[]}\n\ndata: {\"error\":{\"message\":\"CUDA error\"}}\n\n";
  CHECK(contains(failure(), "answered with an error"));
  status = 503;
  reply = "loading";
  CHECK(contains(failure(), "status 503: loading"));
}
