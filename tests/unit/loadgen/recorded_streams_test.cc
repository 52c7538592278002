// Streams recorded from servers (reference material): latencies, counts and findings must come out as recorded.
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "orchestrator/base/file.h"
#include "orchestrator/loadgen/closed_loop.h"
#include "orchestrator/loadgen/completion_stream.h"
#include "orchestrator/sample/metrics.h"
#include "tests/support/catch.h"
#include "tests/support/test_dir.h"

namespace sweep::loadgen {

namespace {

constexpr double kNsPerMs = 1e6;

struct Replayed {
  sample::Sample sample;
  std::vector<std::string> rules;
};

// Lines: the request, then {t_ms, data} per read, then {t_ms, eof}.
Replayed replay(const std::filesystem::path& path) {
  Replayed result;
  std::istringstream lines(base::read_file(path).value());
  std::string line;
  std::getline(lines, line);
  const auto request = nlohmann::json::parse(line)["request"];
  CompletionStream stream(result.sample);
  while (std::getline(lines, line)) {
    const auto read = nlohmann::json::parse(line);
    if (read.contains("eof")) continue;
    stream.receive(read["data"].get<std::string>(), std::llround(read["t_ms"].get<double>() * kNsPerMs));
  }
  stream.finish(true);
  const auto note = [&](const diag::Diagnostic& problem) {
    result.rules.emplace_back(diag::rule_info(problem.rule).slug);
  };
  for (const auto& problem : stream.problems()) note(problem);
  for (const auto& problem : check_lengths(result.sample, request["isl"].get<int64_t>(), request["osl"].get<int64_t>()))
    note(problem);
  return result;
}

double mean_of(const std::vector<double>& values) {
  return stats::describe(values)->mean.value_or(-1);
}

}  // namespace

TEST_CASE("recorded streams: latencies and findings are the recorded ones") {
  const auto data = test::reference_data();
  if (data.empty()) SWEEP_SKIP("no reference data beside the checkout");
  const auto cases = data / "cases_from_reports";
  struct Expected {
    const char* file;
    double ttft, tpot, gap, itl;
    int64_t tokens;
    size_t events;
  };
  for (const Expected& e : {Expected{"sse_multi_token_events.jsonl", 412.0, 1.052174, 6.05, 1.052174, 24, 5},
                            Expected{"sse_role_first.jsonl", 510.0, 11.0, 11.0, 11.0, 4, 4},
                            Expected{"sse_usage_and_done_late.jsonl", 100.0, 9.0, 9.0, 9.0, 3, 3}}) {
    CAPTURE(e.file);
    const Replayed r = replay(cases / e.file);
    CHECK(r.rules.empty());
    CHECK(*sample::ttft_ms(r.sample) == Approx(e.ttft).margin(0.001));
    CHECK(*sample::tpot_ms(r.sample) == Approx(e.tpot).margin(0.001));
    CHECK(mean_of(sample::inter_chunk_ms(r.sample)) == Approx(e.gap).margin(0.001));
    CHECK(mean_of(sample::itl_ms(r.sample)) == Approx(e.itl).margin(0.001));
    CHECK(*r.sample.completion_tokens == e.tokens);
    CHECK(r.sample.chunks.size() == e.events);
  }
}

TEST_CASE("recorded streams: a reply without tokens has failed and has no TTFT") {
  const auto data = test::reference_data();
  if (data.empty()) SWEEP_SKIP("no reference data beside the checkout");
  const Replayed r = replay(data / "cases_from_reports" / "sse_ok_but_empty.jsonl");
  CHECK(r.rules == std::vector<std::string>{"load/no-tokens"});
  CHECK(!sample::ttft_ms(r.sample));
}

TEST_CASE("recorded streams: wrong prompt and output lengths are both named") {
  const auto data = test::reference_data();
  if (data.empty()) SWEEP_SKIP("no reference data beside the checkout");
  const Replayed r = replay(data / "cases_from_reports" / "sse_stopped_early.jsonl");
  CHECK(r.rules == std::vector<std::string>{"load/prompt-length", "load/short-output"});
  CHECK(*r.sample.prompt_tokens == 8190);
  CHECK(*r.sample.completion_tokens == 198);
  CHECK(r.sample.finish_reason == "stop");
}

TEST_CASE(
    "recorded streams: 32 tokens in 7 events, and the ending of an engine that says \"stop\" after \"max_tokens\"") {
  const auto data = test::reference_data();
  if (data.empty()) SWEEP_SKIP("no reference data beside the checkout");
  for (const char* name : {"completions_stream.sse", "completions_stream_atom.sse"}) {
    CAPTURE(name);
    const std::string text = base::read_file(data / "engines" / name).value();
    sample::Sample sample;
    CompletionStream stream(sample);
    int64_t ns = 0;
    for (const char c : text) stream.receive({&c, 1}, ++ns);
    stream.finish(true);
    CHECK(stream.problems().empty());
    CHECK(check_lengths(sample, 64, 32).empty());
    CHECK(sample.chunks.size() == 7);
    CHECK(*sample.completion_tokens == 32);
  }
}

}  // namespace sweep::loadgen
