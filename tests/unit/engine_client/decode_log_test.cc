#include "orchestrator/engine/decode_log.h"

#include <fmt/format.h>

#include "tests/support/catch.h"
#include "tests/support/test_dir.h"

using namespace sweep;
using engine::DecodeLog;
using engine::WindowSummary;

namespace {

struct Cut {
  std::string from = {};
  std::string to = {};
};

diag::Result<DecodeLog> read(std::string_view text, const std::string& engine, const Cut& cut = {}) {
  engine::LogInterval interval;
  if (!cut.from.empty()) interval.from = engine::parse_log_time(cut.from).value();
  if (!cut.to.empty()) interval.to = engine::parse_log_time(cut.to).value();
  return engine::read_decode_log({.text = text, .file = "engine.log", .engine = engine}, interval);
}

DecodeLog log_of(std::string_view text, const std::string& engine, const Cut& cut = {}) {
  auto log = read(text, engine, cut);
  INFO((log ? std::string() : log.error().message));
  REQUIRE(log.has_value());
  return std::move(*log);
}

struct Refused {
  uint32_t line = 0;
  std::string message;
};
Refused refused(std::string_view text, const std::string& engine, const Cut& cut = {}) {
  const auto log = read(text, engine, cut);
  if (log) return {0, "accepted"};
  CHECK(diag::rule_info(log.error().rule).slug == "engine/malformed-log");
  return {log.error().where->line, log.error().message};
}

std::string sglang(std::string_view time, std::string_view length) {
  return fmt::format("[2026-11-03 {} TP0] Decode batch. #running-req: 1, accept len: {}, accept rate: 0.70\n", time,
                     length);
}

std::string vllm(std::string_view time, int accepted, int drafted, std::string_view printed) {
  return fmt::format(
      "(APIServer pid=1) INFO {} [metrics.py:100] SpecDecoding metrics: Mean acceptance length: {}, "
      "Accepted throughput: 0.00 tokens/s, Drafted throughput: 67.00 tokens/s, Accepted: {} tokens, "
      "Drafted: {} tokens, Per-position acceptance rate: 0.900, 0.100, Avg Draft acceptance rate: 0.0%\n",
      time, printed, accepted, drafted);
}

}  // namespace

TEST_CASE("decode log: windows are cut to the interval, both ends included") {
  const std::string text = sglang("10:12:05", "2.10") + sglang("10:12:30", "5.60") + "no window: accept len of peer\n" +
                           sglang("10:12:35", "5.70") + sglang("10:12:40", "5.80") + sglang("10:12:41", "9.00");
  const DecodeLog log = log_of(text, "sglang", {.from = "10:12:30", .to = "2026-11-03 10:12:40"});
  REQUIRE(log.windows.size() == 3);
  CHECK(log.windows_outside == 2);
  CHECK(log.windows[1].line == 4);
  const WindowSummary summary = engine::summarise(log.windows);
  CHECK(*summary.mean == Approx(5.7));
  CHECK(*summary.min == 5.6);
  CHECK(*summary.max == 5.8);
  CHECK_FALSE(summary.length.has_value());
  CHECK_FALSE(summary.drafted.has_value());
  CHECK(log_of(text, "sglang").windows.size() == 5);
}

TEST_CASE("decode log: counts are exact where the engine prints them, and weigh the windows") {
  const DecodeLog log = log_of(vllm("11-03 12:00:00", 90, 200, "1.90") + vllm("11-03 12:00:10", 1, 2, "2.00"), "vllm");
  REQUIRE(log.windows.size() == 2);
  CHECK(log.windows[0].steps == 100);
  const WindowSummary summary = engine::summarise(log.windows);
  CHECK(*summary.mean == Approx(1.95));
  CHECK(*summary.length == Approx(1 + 91.0 / 101));
  CHECK(summary.drafted == 202);
  CHECK(summary.per_position.size() == 2);
  CHECK(engine::summarise({}).windows == 0);
  CHECK_FALSE(engine::summarise({}).mean.has_value());
}

TEST_CASE("decode log: an idle interval and a line without figures are no windows") {
  CHECK(log_of(vllm("11-03 12:00:00", 0, 0, "nan"), "vllm").windows.empty());
  CHECK(log_of("WARNING 09-14 11:42:14 [utils.py:10] SpecDecoding metrics disabled for rank 3\n", "vllm")
            .windows.empty());
  CHECK(
      log_of("[2026-09-14 11:04:09 TP0] Decode batch, #running-req: 8, cuda graph: True\n", "sglang").windows.empty());
}

TEST_CASE("decode log: a window inside the interval that cannot be is refused at its line, one outside is not asked") {
  const std::string bad = sglang("10:00:01", "5.70") + sglang("10:00:02", "nan") + sglang("10:00:03", "5.70");
  CHECK(refused(bad, "sglang").line == 2);
  CHECK(refused(bad, "sglang", {.from = "10:00:03"}).message == "accepted");
  for (const char* length : {"", "0.99", "99999", "1e308", "5.7.1", "-5.7", "x"}) {
    CAPTURE(length);
    CHECK(refused(sglang("10:00:01", length), "sglang").line == 1);
  }
  CHECK(refused(vllm("11-03 12:00:00", 90, 200, "1.95"), "vllm").line == 1);
  CHECK(refused(vllm("11-03 12:00:00", 90, 200, "inf"), "vllm").line == 1);
  CHECK(refused("{\"event\":\"decode_window\",\"unix_ns_begin\":1,\"unix_ns_end\":2,\"steps\":0,\"accepted\":0}\n",
                "embedded")
            .line == 1);
}

TEST_CASE("decode log: a length beyond the draft tokens + 1 that the engine was started with is refused") {
  const std::string start =
      "[2026-11-03 09:00:00] server_args=ServerArgs(speculative_dspark_block_size=5, decode_log_interval=20)\n";
  const DecodeLog log = log_of(start + sglang("10:00:01", "6.00"), "sglang");
  CHECK(log.draft_tokens == 5);
  CHECK(log.steps_per_window == 20);
  CHECK(contains(refused(start + sglang("10:00:01", "6.10"), "sglang").message, "with 5 draft tokens"));
}

TEST_CASE(
    "decode log: compilation and errors count inside the interval only, and undated lines are as old as the last") {
  const std::string text =
      "Capturing CUDA graphs: 100%\n"
      "[2026-11-03 11:00:00 TP0] The server is fired up and ready to roll!\n"
      "[2026-11-03 11:00:05 TP0] Entering DeepGEMM JIT Pre-Compile session.\n"
      "[2026-11-03 11:00:20 TP0] Prefill batch. #new-seq: 1, #new-token: 8192, #cached-token: 64, token usage: 0.00\n"
      "2026-11-03 11:00:21,500 - INFO - flashinfer.jit: Loading JIT ops: cascade\n"
      "2026-11-03 11:00:21,600 - INFO - flashinfer.jit: Finished loading JIT ops: cascade\n"
      "ninja: Entering directory\n"
      "Traceback (most recent call last):\n" +
      sglang("11:00:24", "5.71") + "[2026-11-03 11:00:40 TP0] DeepGEMM JIT code generation <gemm>\n";
  const DecodeLog inside = log_of(text, "sglang", {.from = "11:00:20", .to = "11:00:30"});
  REQUIRE(inside.compile_lines.count == 2);
  CHECK(inside.compile_lines.first[0].line == 5);
  CHECK(inside.compile_lines.first[1].line == 7);
  REQUIRE(inside.error_lines.count == 1);
  CHECK(inside.error_lines.first[0].line == 8);
  CHECK(inside.new_tokens == 8192);
  CHECK(inside.cached_tokens == 64);
  const DecodeLog after_ready = log_of(text, "sglang");
  CHECK(after_ready.ready_line == 2);
  CHECK(after_ready.compile_lines.count == 4);
}

TEST_CASE("decode log: of many lines about compilation the first are kept, and all are counted") {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "JIT compilation\n";
  const DecodeLog log = log_of(text, "vllm");
  CHECK(log.compile_lines.count == 1000);
  CHECK(log.compile_lines.first.size() == engine::kMostLogLines);
}

TEST_CASE("decode log: an interval must fit the log's clock") {
  const std::string one_day = sglang("10:00:01", "5.70");
  const std::string two_days = one_day + "[2026-11-04 10:00:01 TP0] Prefill batch. #new-token: 1, #cached-token: 0\n";
  CHECK(contains(refused(two_days, "sglang", {.from = "10:00:00"}).message, "more than a day"));
  CHECK(log_of(two_days, "sglang", {.from = "2026-11-04 10:00:00"}).windows.empty());
  CHECK(log_of(two_days, "sglang", {.from = "11-03 10:00:00"}).windows.size() == 1);
  CHECK(contains(refused(one_day, "sglang", {.from = "@1793700725"}).message, "no zone"));
  CHECK(contains(refused("no times here\n", "sglang", {.to = "10:00:00"}).message, "no line has a time"));
  CHECK(contains(refused("[{\"iter\":1}]", "trtllm", {.to = "10:00:00"}).message, "no times"));
}

TEST_CASE("decode log: a log without years may run into the next one") {
  const std::string text = vllm("12-31 23:59:50", 90, 200, "1.90") + vllm("01-01 00:00:10", 90, 200, "1.90");
  CHECK(log_of(text, "vllm", {.from = "2026-12-31 23:59:55"}).windows.size() == 1);
}

TEST_CASE("decode log: windows of another engine are recognised") {
  CHECK(log_of(sglang("10:00:01", "5.70"), "vllm").looks_like == "sglang");
  CHECK(log_of(vllm("11-03 12:00:00", 90, 200, "1.90"), "sglang").looks_like == "vllm");
  CHECK(log_of("", "sglang").looks_like.empty());
}

TEST_CASE("decode log: the bundled engine's windows are on Unix time, and other lines are passed over") {
  const std::string text =
      "plain text about decode_window\n"
      "{\"event\":\"decode_window\",\"unix_ns_begin\":50,\"unix_ns_end\":150,\"steps\":40,\"accepted\":1}\n"
      "{\"event\":7,\"text\":\"decode_window\"}\n"
      "{\"event\":\"decode_window\",\"unix_ns_begin\":100,\"unix_ns_end\":200,\"steps\":40,\"accepted\":188}\n"
      "{\"event\":\"decode_window\",\"unix_ns_begin\":200,\"unix_ns_end\":301,\"steps\":40,\"accepted\":2}\n"
      "{\"event\":\"decode_window\",\"unix_ns_begin\":\"x\",\"unix_ns_end\":150,\"steps\":0}\n"
      "{\"event\":\"decode_window\",\"unix_ns_be";
  const std::string good = text.substr(0, text.find("{\"event\":\"decode_window\",\"unix_ns_begin\":\"x\""));
  const DecodeLog log = log_of(good, "embedded", {.from = "@0.0000001", .to = "@0.0000003"});
  REQUIRE(log.windows.size() == 1);
  CHECK(log.windows[0].line == 4);
  CHECK(*engine::summarise(log.windows).length == Approx(5.7));
}

TEST_CASE("decode log: an interval of bytes needs no clock, and holds the lines that begin in it") {
  const std::string before = sglang("10:00:01", "5.10") + "INFO: JIT compilation of a kernel\n";
  const std::string inside = sglang("10:00:01", "5.70") + "CUDA error: an illegal memory access\n";
  const std::string text = before + inside + sglang("10:00:01", "5.90");
  const auto log = engine::read_decode_log(
      {.text = text, .file = "engine.log", .engine = "sglang"},
      {.from = {}, .to = {}, .from_byte = before.size(), .to_byte = before.size() + inside.size()});
  REQUIRE(log.has_value());
  REQUIRE(log->windows.size() == 1);
  CHECK(log->windows[0].acceptance_length == Approx(5.7));
  CHECK(log->windows_outside == 2);
  CHECK(log->compile_lines.count == 0);
  REQUIRE(log->error_lines.count == 1);
  CHECK(log->error_lines.first[0].line == 4);
}

TEST_CASE("decode log: bytes that are no text neither end up in messages nor end the reading") {
  const std::string text = std::string("\0\xff\x1b[31m\n", 8) +
                           std::string("[2026-11-03 10:00:00] JIT compil\x01\xff\n") + sglang("10:00:01", "5.70") +
                           std::string(1 << 16, '\xf0');
  const DecodeLog log = log_of(text, "sglang");
  CHECK(log.windows.size() == 1);
  REQUIRE(log.compile_lines.count == 1);
  CHECK(log.compile_lines.first[0].text == "[2026-11-03 10:00:00] JIT compil \xEF\xBF\xBD");
}

TEST_CASE("decode log: the samples of engines say what their description says") {
  const auto data = test::reference_data();
  if (data.empty()) SWEEP_SKIP("no reference data beside the checkout");
  const auto sample = [&](const char* name) { return base::read_file(data / "engines" / name).value(); };
  const DecodeLog requests = log_of(sample("sglang_decode.log"), "sglang", {.from = "11:03:55", .to = "11:04:04"});
  CHECK(requests.windows.size() == 10);
  CHECK(*engine::summarise(requests.windows).mean == Approx(5.699));
  CHECK(requests.draft_tokens == 7);
  CHECK(requests.steps_per_window == 40);
  CHECK(requests.new_tokens == 81920);
  CHECK(requests.cached_tokens == 0);
  CHECK(requests.compile_lines.count == 0);
  const DecodeLog all = log_of(sample("sglang_decode.log"), "sglang");
  CHECK(all.windows.size() == 16);  // two warm-ups, ten requests, four of five other dialects
  CHECK(all.cached_tokens == 513);
  CHECK(all.compile_lines.count == 0);

  const DecodeLog vllm_log = log_of(sample("vllm_engine.log"), "vllm");
  const WindowSummary summary = engine::summarise(vllm_log.windows);
  CHECK(summary.windows == 5);
  CHECK(vllm_log.draft_tokens == 5);
  CHECK(summary.drafted == 22490);
  CHECK(summary.accepted == 16643);
  CHECK(*summary.length == Approx(1 + 16643.0 / 4498));
  CHECK(summary.per_position[3] == Approx(0.7).margin(0.01));

  const DecodeLog atom = log_of(sample("atom_startup.log"), "atom");
  CHECK(atom.windows.empty());
  CHECK(atom.forced_length == 5.7);
  CHECK(atom.draft_tokens == 7);
  const DecodeLog stats = log_of(sample("atom_mtp_stats.json"), "atom");
  CHECK(stats.since_start);
  CHECK(*engine::summarise(stats.windows).length == Approx(5.7));
  CHECK(log_of(sample("trtllm_iteration_stats.json"), "trtllm").windows.size() == 3);
  CHECK(log_of(sample("trtllm_perf_metrics.json"), "trtllm").unassigned_drafted == 250);
  CHECK(log_of(sample("sglang_server_info.json"), "sglang").windows[0].acceptance_length == 5.697);
}
