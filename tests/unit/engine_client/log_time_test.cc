#include "orchestrator/engine/log_time.h"

#include "tests/support/catch.h"

using namespace sweep::engine;

namespace {
constexpr int64_t kSecond = 1'000'000'000;
}

TEST_CASE("log time: the forms of engines, anywhere in the beginning of a line") {
  const auto sglang = time_in_line("[2026-11-03 10:12:05 TP0] Decode batch");
  REQUIRE(sglang.has_value());
  CHECK(sglang->ns() == 1793700725 * kSecond);
  const auto vllm = time_in_line("(APIServer pid=101) INFO 09-14 11:41:23 [metrics.py:120] x");
  REQUIRE(vllm.has_value());
  CHECK_FALSE(vllm->year.has_value());
  CHECK(vllm->day == 914);
  CHECK(time_in_line("2025-02-27 12:24:22,992 - INFO")->ns() % kSecond == 992'000'000);
  CHECK(time_in_line("2025-02-27T12:24:22.5Z")->ns() % kSecond == 500'000'000);
  CHECK_FALSE(time_in_line("Loading: 48/48 [00:57<00:00,  1.19s/it]").has_value());
  CHECK_FALSE(time_in_line("2426-11-03 10:12:05").has_value());
  CHECK_FALSE(time_in_line("2026-13-03 10:12:05").has_value());
  CHECK_FALSE(time_in_line("2026-02-29 10:12:05").has_value());
  CHECK_FALSE(time_in_line("2026-02-28 24:00:00").has_value());
  CHECK(time_in_line("02-29 10:12:05").has_value());
  CHECK_FALSE(time_in_line(std::string(100, ' ') + "2026-11-03 10:12:05").has_value());
  CHECK_FALSE(time_in_line("").has_value());
}

TEST_CASE("log time: what a person types") {
  CHECK(parse_log_time("10:12:30")->day_ns == 36750 * kSecond);
  CHECK_FALSE(parse_log_time("10:12:30")->day.has_value());
  CHECK(parse_log_time("2026-11-03 10:12:05.25")->ns() == 1793700725 * kSecond + 250'000'000);
  CHECK(parse_log_time("11-03 10:12:05")->day == 1103);
  CHECK(parse_log_time("@1793700725.5")->ns() == 1793700725 * kSecond + 500'000'000);
  CHECK(parse_log_time("@1793700725")->utc);
  for (const char* wrong : {"", "10:12", "10:12:30x", "yesterday", "@", "@-1", "@1.", "@99999999999999999999",
                            "25:00:00", "2026-11-03", "2026-11-03 10:12:05 CET"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_log_time(wrong).has_value());
  }
}

TEST_CASE("log time: Unix time before and after 1970 keeps its day") {
  CHECK(log_time_of_unix(0).ns() == 0);
  CHECK(log_time_of_unix(-1).ns() == -1);
  CHECK(log_time_of_unix(1793700725 * kSecond).day == 1103);
}
