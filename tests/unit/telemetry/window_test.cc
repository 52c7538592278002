#include "orchestrator/telemetry/window.h"

#include "orchestrator/diag/render.h"
#include "orchestrator/telemetry/times.h"
#include "tests/support/catch.h"

using namespace sweep;
using namespace sweep::telemetry;

namespace {

struct ParsedWindow {
  std::optional<Window> window;
  std::string findings;
};

ParsedWindow parse_text(const std::string& text) {
  diag::Diagnostics out;
  ParsedWindow parsed{.window = parse_window("window.json", text, out), .findings = {}};
  parsed.findings = diag::render_text(out, {});
  return parsed;
}

}  // namespace

TEST_CASE("window: local times, Unix times and those of a run are told apart") {
  const ParsedWindow local = parse_text(
      R"({"start": "2026-11-03T10:00:03.500", "end": "2026-11-03T10:00:07.250", "expected_gpus": 2, "output_tokens": 9})");
  INFO(local.findings);
  REQUIRE(local.window.has_value());
  CHECK(local.window->on(Clock::kLocal)->seconds() == Approx(3.75));
  CHECK_FALSE(local.window->on(Clock::kUnix).has_value());
  CHECK(local.window->expected_gpus == 2);
  CHECK(local.window->output_tokens == 9);

  const ParsedWindow zoned = parse_text(R"({"start": "1970-01-01T01:00:01+01:00", "end": 2.25})");
  INFO(zoned.findings);
  REQUIRE(zoned.window.has_value());
  CHECK(zoned.window->on(Clock::kUnix)->begin_ns == 1'000'000'000);
  CHECK(zoned.window->on(Clock::kUnix)->seconds() == Approx(1.25));

  const ParsedWindow srt =
      parse_text(R"({"benchmark_start_time_unix": 1789384980.5, "benchmark_end_time_unix": 1789384984})");
  REQUIRE(srt.window.has_value());
  CHECK(srt.window->on(Clock::kUnix)->seconds() == Approx(3.5));

  const ParsedWindow run = parse_text(
      R"({"window": {"start_ns": 5, "end_ns": 7, "start_unix_ns": 1005, "end_unix_ns": 1007}, "windows": []})");
  INFO(run.findings);
  REQUIRE(run.window.has_value());
  CHECK(run.window->on(Clock::kMonotonic)->begin_ns == 5);
  CHECK(run.window->on(Clock::kUnix)->end_ns == 1007);
}

TEST_CASE("window: what cannot be meant is refused at its place") {
  const auto refused = [](const std::string& text, std::string_view part) {
    const ParsedWindow parsed = parse_text(text);
    INFO(text << "\n" << parsed.findings);
    CHECK_FALSE(parsed.window.has_value());
    CHECK(contains(parsed.findings, "window.json:1:"));
    CHECK(contains(parsed.findings, part));
  };
  refused("[]", "expected an object");
  refused("{}", "there is no \"start\"");
  refused("{", "error");
  refused(R"({"start": 1, "start": 2, "end": 3})", "start");
  refused(R"({"start": 3, "end": 3})", "before it begins");
  refused(R"({"start": 4, "end": 3})", "the window ends 1.000 s before it begins");
  refused(R"({"start": -1, "end": 3})", "expected a time such as");
  refused(R"({"start": "yesterday", "end": 3})", "expected a time such as");
  refused(R"({"start": "2026-11-03T10:00:00", "end": 2000000000})", "\"start\" is of the local wall clock");
  refused(R"({"start": 1, "end": 3, "expected_gpus": 0})", "expected an integer of at least 1");
  refused(R"({"start": 1, "end": 3, "output_tokens": "9"})", "expected an integer");
  refused(R"({"window": {"start_ns": 5}})", "there is no \"end_ns\"");
}

TEST_CASE("times: dates of the calendar only, to the nanosecond") {
  CHECK(parse_date_time("1970-01-01T00:00:00.000000001")->ns == 1);
  CHECK(parse_date_time("2024/02/29 00:00:00").has_value());
  CHECK(parse_date_time("2026-11-03T10:00:00Z")->clock == Clock::kUnix);
  CHECK(parse_date_time("2026-11-03T10:00:00-0130")->ns - parse_date_time("2026-11-03T10:00:00Z")->ns ==
        int64_t{5400} * 1'000'000'000);
  for (const char* text :
       {"", "2026", "2026-11-03", "2026-13-01T00:00:00", "2023-02-29T00:00:00", "2026/11-03 00:00:00",
        "2026-11-03T00:00:60", "2026-11-03T00:00:00.", "2026-11-03T00:00:00.0123456789", "2026-11-03T00:00:00 ",
        "2026-11-03T00:00:00+1", "1969-01-01T00:00:00", "2262-01-01T00:00:00", "2026-11-03T00:00:00Zx"}) {
    INFO(text);
    CHECK_FALSE(parse_date_time(text).has_value());
  }
  CHECK(parse_seconds("1789384980.250") == int64_t{1'789'384'980'250'000'000});
  CHECK(parse_seconds("0") == int64_t{0});
  for (const char* text : {"", "-1", "-0", "1.", ".5", "1e3", "1.0123456789", "99999999999", "1 ", "+1"}) {
    INFO(text);
    CHECK_FALSE(parse_seconds(text).has_value());
  }
}
