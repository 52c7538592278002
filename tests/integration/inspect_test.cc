// `inspect sse|metrics|decode-log` as people use it: the built command on captures, small ones made here and the
// recorded ones of the reference material.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "orchestrator/base/file.h"
#include "orchestrator/exec/capture.h"
#include "tests/support/catch.h"
#include "tests/support/test_dir.h"

using namespace sweep;
using namespace sweep::test;

namespace {

using nlohmann::json;

struct Inspected {
  int code = 0;
  std::string output;
  std::string errors;
  json document;  // of --format json

  bool has_finding(const std::string& rule) const {
    for (const json& finding : document.value("diagnostics", json::array()))
      if (finding["rule"] == rule) return true;
    return false;
  }
};

Inspected inspect(std::vector<std::string> arguments, bool as_json = true) {
  arguments.insert(arguments.begin(), {SWEEPCTL_PROGRAMS "/sweepctl", "inspect"});
  if (as_json) arguments.insert(arguments.end(), {"--format", "json"});
  const auto ran = exec::capture({.argv = std::move(arguments), .environment = {{"GITHUB_ACTIONS", ""}}}, {}, {}, {});
  REQUIRE(ran.has_value());
  CHECK(ran->status.signal == 0);
  Inspected result{.code = ran->status.code, .output = ran->output, .errors = ran->errors, .document = {}};
  if (!as_json || result.output.empty()) return result;
  result.document = json::parse(result.output, nullptr, false);
  INFO(result.output);
  REQUIRE(result.document.is_object());
  CHECK(result.document["schema_version"] == 1);
  CHECK(result.document["valid"].get<bool>() == (result.code == 0));
  CHECK(result.document["reasons"].empty() == (result.code == 0));
  return result;
}

bool is_near(const json& found, const json& expected, double tolerance) {
  if (expected.is_array()) {
    if (!found.is_array() || found.size() != expected.size()) return false;
    for (size_t i = 0; i < expected.size(); ++i)
      if (!is_near(found[i], expected[i], tolerance)) return false;
    return true;
  }
  if (!expected.is_number()) return found == expected;
  return found.is_number() && std::abs(found.get<double>() - expected.get<double>()) <= tolerance;
}

std::string sglang(std::string_view time, std::string_view length) {
  return fmt::format(
      "[2026-11-03 {} TP0] Decode batch. #running-req: 1, #token: 8210, accept len: {}, accept rate: 0.70\n", time,
      length);
}

std::string counters(int drafts, int accepted, int queried, int hits) {
  return fmt::format(
      "# TYPE embedded:spec_decode_num_drafts_total counter\n"
      "embedded:spec_decode_num_drafts_total{{model_name=\"m\"}} {}\n"
      "embedded:spec_decode_num_draft_tokens_total{{model_name=\"m\"}} {}\n"
      "embedded:spec_decode_num_accepted_tokens_total{{model_name=\"m\"}} {}\n"
      "embedded:prefix_cache_queries_total {}\nembedded:prefix_cache_hits_total {}\n",
      drafts, drafts * 7, accepted, queried, hits);
}

std::string stream(int prompt, int completion, std::string_view reason) {
  return fmt::format(
      "{{\"request\": {{\"isl\": 8, \"osl\": 5}}}}\n"
      "{{\"t_ms\": 40, \"data\": \"data: "
      "{{\\\"choices\\\":[{{\\\"text\\\":\\\"a\\\"}}],\\\"usage\\\":{{\\\"prompt_tokens\\\":{0},"
      "\\\"completion_tokens\\\":1}}}}\\n\\n\"}}\n"
      "{{\"t_ms\": 46, \"data\": \"data: "
      "{{\\\"choices\\\":[{{\\\"text\\\":\\\"b\\\",\\\"finish_reason\\\":\\\"{2}\\\"}}],"
      "\\\"usage\\\":{{\\\"prompt_tokens\\\":{0},\\\"completion_tokens\\\":{1}}}}}\\n\\n\"}}\n"
      "{{\"t_ms\": 47, \"data\": \"data: [DONE]\\n\\n\"}}\n{{\"t_ms\": 47, \"eof\": true}}\n",
      prompt, completion, reason);
}

}  // namespace

TEST_CASE("inspect sse: a good request is valid, a short one is not, and each reason has its rule") {
  const TestDir dir;
  const Inspected good = inspect({"sse", dir.write("good.jsonl", stream(8, 5, "length")).string()});
  CHECK(good.code == 0);
  CHECK(good.document["ttft_ms"] == 40.0);
  CHECK(good.document["tpot_ms"] == 1.5);
  CHECK(good.document["mean_itl_per_token_ms"] == 1.5);
  CHECK(good.document["mean_gap_per_event_ms"] == 6.0);
  CHECK(good.document["completed"] == true);
  const Inspected bad = inspect({"sse", dir.write("bad.jsonl", stream(7, 4, "stop")).string()});
  CHECK(bad.code == 5);
  CHECK(bad.has_finding("load/prompt-length"));
  CHECK(bad.has_finding("load/short-output"));
  CHECK(bad.document["reasons"].size() == 2);
  const Inspected human = inspect({"sse", (dir / "bad.jsonl").string()}, false);
  CHECK(human.code == 5);
  CHECK(contains(human.output, "NOT valid"));
  CHECK(contains(human.errors, "7 of 8 prompt tokens"));
  CHECK(contains(human.errors, "4 of 5 tokens, finish reason \"stop\""));
}

TEST_CASE("inspect sse: raw bytes give tokens and say that they have no times") {
  const TestDir dir;
  const std::string raw =
      "data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":8,"
      "\"completion_tokens\":5}}\n\ndata: [DONE]\n\n";
  const std::string file = dir.write("raw.sse", raw).string();
  const Inspected good = inspect({"sse", file, "--isl", "8", "--osl", "5"});
  CHECK(good.code == 0);
  CHECK(good.document["ttft_ms"].is_null());
  CHECK(good.document["completion_tokens"] == 5);
  CHECK(good.has_finding("load/no-times"));
  CHECK(inspect({"sse", file, "--osl", "6"}).code == 5);
}

TEST_CASE("inspect metrics: the difference counts, a restart and a warm cache do not pass") {
  const TestDir dir;
  const std::string before = dir.write("before.txt", counters(100, 10, 50, 50)).string();
  const auto after = [&](int drafts, int accepted, int queried, int hits) {
    return inspect({"metrics", before, dir.write("after.txt", counters(drafts, accepted, queried, hits)).string(),
                    "--engine", "embedded", "--target", "5.7"});
  };
  const Inspected good = after(500, 1890, 1050, 50);
  CHECK(good.code == 0);
  CHECK(good.document["drafts"] == 400);
  CHECK(good.document["acceptance_length"] == 5.7);
  CHECK(good.document["hit_rate"] == 0.0);
  const Inspected off = after(500, 1690, 1050, 50);
  CHECK(off.code == 5);
  CHECK(off.has_finding("judge/acceptance"));
  const Inspected warm = after(500, 1890, 1050, 61);
  CHECK(warm.code == 5);
  CHECK(warm.has_finding("judge/prefix-cache"));
  const Inspected dead = after(500, 10, 1050, 50);
  CHECK(dead.has_finding("judge/dead-draft"));
  const Inspected restarted = after(90, 400, 1050, 50);
  CHECK(restarted.code == 5);
  CHECK(restarted.has_finding("engine/counter-reset"));
  CHECK(restarted.document["acceptance_length"].is_null());
}

TEST_CASE("inspect metrics: pages that cannot be understood are problems of the input, with their line") {
  const TestDir dir;
  const std::string good = dir.write("good.txt", counters(1, 1, 1, 0)).string();
  const auto refused = [&](std::string_view text) {
    const Inspected result = inspect({"metrics", good, dir.write("bad.txt", text).string(), "--engine", "embedded"});
    CHECK(result.code == 1);
    CHECK(result.has_finding("engine/malformed-metrics"));
    return result.errors;
  };
  CHECK(contains(refused("embedded:prompt_tokens_total 1\nembedded:x{a=\"b\" 1\n"), "bad.txt:2: error: "));
  CHECK(contains(refused("embedded:prompt_tokens_total 1"), "cut"));
  CHECK(contains(refused(""), "none of the counters"));
  CHECK(contains(refused("vllm:prompt_tokens_total 1\n"), "--engine vllm"));
  CHECK(contains(refused("embedded:prompt_tokens_total 1e40\n"), "counts nothing"));
  CHECK(inspect({"metrics", good, (dir / "absent").string(), "--engine", "embedded"}).code == 1);
  CHECK(inspect({"metrics", good, good, "--engine", "other"}).code == 2);
  CHECK(inspect({"metrics", good, good}).code == 2);
}

TEST_CASE("inspect decode-log: windows inside the interval are judged, compilation inside it is not forgiven") {
  const TestDir dir;
  const std::string text = sglang("10:00:00", "2.10") + sglang("10:00:10", "5.60") + sglang("10:00:11", "5.80") +
                           "[2026-11-03 10:00:20 TP0] DeepGEMM JIT code generation <gemm>\n";
  const std::string file = dir.write("engine.log", text).string();
  const Inspected good =
      inspect({"decode-log", file, "--engine", "sglang", "--from", "10:00:10", "--to", "10:00:12", "--target", "5.7"});
  CHECK(good.code == 0);
  CHECK(good.document["windows"] == 2);
  CHECK(good.document["mean"] == Approx(5.7));
  CHECK(good.document["jit_lines_in_window"] == 0);
  const Inspected compiled = inspect({"decode-log", file, "--engine", "sglang", "--from", "10:00:10"});
  CHECK(compiled.code == 5);
  CHECK(compiled.has_finding("judge/jit"));
  CHECK(compiled.document["jit_lines"][0]["line"] == 4);
  const Inspected strict = inspect({"decode-log", file, "--engine", "sglang", "--from", "10:00:10", "--to", "10:00:10",
                                    "--target", "5.7", "--within", "0.05"});
  CHECK(strict.code == 5);
  CHECK(strict.document["tolerance"] == 0.05);
  const Inspected early = inspect({"decode-log", file, "--engine", "sglang", "--to", "10:00:12", "--target", "5.7"});
  CHECK(early.code == 5);
  CHECK(early.has_finding("judge/acceptance"));
  CHECK(contains(inspect({"decode-log", file, "--engine", "vllm"}, false).errors, "--engine sglang"));
  CHECK(inspect({"decode-log", file, "--engine", "sglang", "--from", "soon"}).code == 2);
  CHECK(inspect({"decode-log", file, "--engine", "sglang", "--from", "@1793700725"}).code == 1);
  const Inspected cannot_be =
      inspect({"decode-log", dir.write("bad.log", sglang("10:00:00", "5.7") + sglang("10:00:01", "99999")).string(),
               "--engine", "sglang"});
  CHECK(cannot_be.code == 1);
  CHECK(contains(cannot_be.errors, "bad.log:2: error: "));
}

TEST_CASE("inspect decode-log: an error in the log is named, and is no verdict") {
  const TestDir dir;
  const std::string text = sglang("10:00:00", "5.70") + "[2026-11-03 10:00:01 TP0] NCCL error: unhandled\n";
  const Inspected result = inspect({"decode-log", dir.write("engine.log", text).string(), "--engine", "sglang"});
  CHECK(result.code == 0);
  CHECK(result.has_finding("engine/log-error"));
  CHECK(result.document["error_lines_in_window"] == 1);
}

TEST_CASE("inspect: hostile captures are refused in bounded time") {
  const TestDir dir;
  const std::string deep = dir.write("deep", std::string(1 << 22, '[') + "{").string();
  const std::string nul = dir.write("nul", std::string(1 << 20, '\0')).string();
  const std::string bytes = dir.write("bytes", std::string(1 << 20, '\xf0')).string();
  const std::string brace = dir.write("brace", "{\"request\":" + std::string(1 << 20, '{')).string();
  for (const std::string& file : {deep, nul, bytes, brace}) {
    CAPTURE(file);
    CHECK(inspect({"metrics", file, file, "--engine", "vllm"}).code == 1);
    CHECK(inspect({"metrics", file, file, "--engine", "trtllm"}).code == 1);
    const int sse = inspect({"sse", file}).code;
    CHECK((sse == 1 || sse == 5));
    const int log = inspect({"decode-log", file, "--engine", "vllm"}).code;
    CHECK((log == 1 || log == 5));
  }
  const std::string sparse = dir.write("sparse", "").string();
  std::filesystem::resize_file(sparse, uint64_t{1} << 32);
  CHECK(contains(inspect({"sse", sparse}).errors, "file/too-large"));
  CHECK(contains(inspect({"decode-log", sparse, "--engine", "vllm"}).errors, "file/too-large"));
  CHECK(contains(inspect({"metrics", sparse, sparse, "--engine", "vllm"}).errors, "file/too-large"));
}

TEST_CASE("inspect: the recorded cases come out as their index says") {
  const auto data = reference_data();
  if (data.empty()) SWEEP_SKIP("no reference data beside the checkout");
  const auto folder = data / "cases_from_reports";
  const json index = json::parse(base::read_file(folder / "index.json").value());
  struct Case {
    std::string id;
    std::vector<std::string> before;  // the files
    std::vector<std::string> after;
    int code;
    std::string rule;  // that is reported
  };
  const std::vector<Case> cases{
      {"S20", {"sse"}, {}, 0, ""},
      {"S21", {"sse"}, {}, 0, ""},
      {"S22", {"sse"}, {}, 0, ""},
      {"S23", {"sse"}, {}, 5, "load/no-tokens"},
      {"S24", {"sse"}, {}, 5, "load/short-output"},
      {"S25", {"metrics"}, {"--engine", "vllm"}, 0, ""},
      {"S26", {"metrics"}, {"--engine", "vllm"}, 5, "judge/prefix-cache"},
      {"S27",
       {"decode-log"},
       {"--engine", "sglang", "--from", "10:12:30", "--to", "10:12:40", "--target", "5.7"},
       0,
       ""},
      {"S28", {"decode-log"}, {"--engine", "sglang", "--from", "11:00:20", "--to", "11:00:30"}, 5, "judge/jit"},
      {"S29", {"decode-log"}, {"--engine", "vllm"}, 5, "judge/dead-draft"}};
  for (const Case& c : cases) {
    CAPTURE(c.id);
    const auto found = std::find_if(index["cases"].begin(), index["cases"].end(),
                                    [&](const json& item) { return item["id"] == c.id; });
    REQUIRE(found != index["cases"].end());
    std::vector<std::string> arguments = c.before;
    const json files = (*found)["file"].is_array() ? (*found)["file"] : json::array({(*found)["file"]});
    for (const json& file : files) arguments.push_back((folder / file.get<std::string>()).string());
    arguments.insert(arguments.end(), c.after.begin(), c.after.end());
    const Inspected result = inspect(arguments);
    INFO(result.output);
    CHECK(result.code == c.code);
    if (!c.rule.empty()) CHECK(result.has_finding(c.rule));
    const json tolerance = (*found).value("tolerance", json::object());
    const double allowed = tolerance.value("abs_ms", tolerance.value("abs", 1e-9));
    for (const auto& [key, expected] : (*found)["values"].items()) {
      CAPTURE(key);
      // Asked and found, where two figures stand for one key.
      const json& wanted = c.id == "S24" && expected.is_array() ? expected[1] : expected;
      CHECK(is_near(result.document.value(key, json("absent")), wanted, allowed));
    }
  }
}

TEST_CASE("inspect: every engine's sample gives what its description says") {
  const auto data = reference_data();
  if (data.empty()) SWEEP_SKIP("no reference data beside the checkout");
  const auto file = [&](const char* name) { return (data / "engines" / name).string(); };
  const Inspected vllm = inspect({"metrics", file("vllm_metrics_before.txt"), file("vllm_metrics_after.txt"),
                                  "--engine", "vllm", "--target", "5.7"});
  CHECK(vllm.code == 0);
  CHECK(vllm.document["drafts"] == 450);
  CHECK(vllm.document["acceptance_length"] == Approx(5.7));
  CHECK(vllm.document["prompt_tokens"] == 81920);
  const Inspected gauges =
      inspect({"metrics", file("sglang_metrics.txt"), file("sglang_metrics.txt"), "--engine", "sglang"});
  CHECK(gauges.code == 0);
  CHECK(gauges.document["acceptance_length_gauge"] == 5.7);
  CHECK(gauges.document["acceptance_length"].is_null());
  CHECK(gauges.has_finding("engine/no-counters"));
  const Inspected requests = inspect({"decode-log", file("sglang_decode.log"), "--engine", "sglang", "--from",
                                      "11:03:55", "--to", "11:04:04", "--target", "5.7"});
  CHECK(requests.code == 0);
  CHECK(requests.document["windows"] == 10);
  CHECK(requests.document["mean"] == Approx(5.7).margin(0.002));
  const Inspected vllm_log = inspect({"decode-log", file("vllm_engine.log"), "--engine", "vllm", "--target", "4.7"});
  CHECK(vllm_log.code == 0);
  CHECK(vllm_log.document["length"] == Approx(4.7).margin(0.001));
  const Inspected atom = inspect({"decode-log", file("atom_mtp_stats.json"), "--engine", "atom", "--target", "5.7"});
  CHECK(atom.code == 0);
  CHECK(atom.document["length"] == Approx(5.7));
  CHECK(atom.document["since_start"] == true);
  const Inspected forced = inspect({"decode-log", file("atom_startup.log"), "--engine", "atom"});
  CHECK(forced.code == 5);  // it says what was asked for, and nothing about what came of it
  CHECK(forced.document["forced_length"] == 5.7);
  const Inspected trtllm = inspect({"decode-log", file("trtllm_iteration_stats.json"), "--engine", "trtllm"});
  CHECK(trtllm.code == 0);
  CHECK(trtllm.document["length"] == Approx(1 + 11.0 / 3));
  const Inspected drained =
      inspect({"decode-log", file("trtllm_perf_metrics.json"), "--engine", "trtllm", "--draft-tokens", "5"});
  CHECK(drained.code == 0);
  CHECK(drained.document["length"] == Approx(5.1));
  CHECK(inspect({"decode-log", file("sglang_server_info.json"), "--engine", "sglang"}).document["mean"] == 5.697);
  CHECK(inspect({"sse", file("completions_stream.sse"), "--isl", "64", "--osl", "32"}).code == 0);
  const Inspected ended = inspect({"sse", file("completions_stream_atom.sse"), "--isl", "64", "--osl", "32"});
  CHECK(ended.code == 0);
  CHECK(ended.document["token_events"] == 7);
  CHECK(ended.document["finish_reason"] == "max_tokens");
}
