#include "orchestrator/engine/server.h"

#include "orchestrator/base/temp_dir.h"
#include "tests/support/catch.h"

using namespace sweep;

TEST_CASE("engine: counters are summed over engines, and gauges about their creation are left out") {
  constexpr std::string_view kPage =
      "# HELP vllm:spec_decode_num_drafts_total Number of drafts.\n"
      "# TYPE vllm:spec_decode_num_drafts_total counter\n"
      "vllm:spec_decode_num_drafts_total{engine=\"0\",model_name=\"m\"} 100.0\n"
      "vllm:spec_decode_num_drafts_total{engine=\"1\",model_name=\"m}x\"} 50.0\n"
      "vllm:spec_decode_num_drafts_created{engine=\"0\"} 1.7e9\n"
      "vllm:spec_decode_num_accepted_tokens_total{engine=\"0\"} 4.7e+02\n"
      "vllm:spec_decode_num_accepted_tokens_total{engine=\"1\"} 235\r\n"
      "vllm:spec_decode_num_accepted_tokens_per_pos_total{engine=\"0\",position=\"0\"} 100\n"
      "vllm:spec_decode_num_accepted_tokens_per_pos_total{engine=\"1\",position=\"0\"} 50\n"
      "vllm:spec_decode_num_accepted_tokens_per_pos_total{engine=\"0\",position=\"2\"} 7\n"
      "vllm:prefix_cache_hits_total 12\n";
  const auto counters = engine::parse_counters(kPage, "vllm:");
  REQUIRE(counters.has_value());
  CHECK(counters->drafts == 150);
  CHECK(counters->accepted == 705);
  CHECK(counters->accepted_per_position == std::vector<int64_t>{150, 0, 7});
  CHECK(counters->prefix_cache_hits == 12);
}

TEST_CASE("engine: a page without the draft counter is not a reading of zero") {
  CHECK_FALSE(engine::parse_counters("", "embedded:").has_value());
  CHECK_FALSE(engine::parse_counters("vllm:spec_decode_num_drafts_total 5\n", "embedded:").has_value());
  CHECK_FALSE(engine::parse_counters("embedded:spec_decode_num_drafts_total NaN\n", "embedded:").has_value());
  CHECK_FALSE(engine::parse_counters("embedded:spec_decode_num_drafts_total{a=\"b\" 5\n", "embedded:").has_value());
}

TEST_CASE("engine: a hostile position label does not make memory grow") {
  const auto counters = engine::parse_counters(
      "e:spec_decode_num_drafts_total 1\n"
      "e:spec_decode_num_accepted_tokens_per_pos_total{position=\"4000000000\"} 1\n"
      "e:spec_decode_num_accepted_tokens_per_pos_total{position=\"x\"} 1\n",
      "e:");
  REQUIRE(counters.has_value());
  CHECK(counters->accepted_per_position.empty());
}

TEST_CASE("engine: counters survive a round trip through their stage file") {
  const engine::Counters counters{
      .drafts = 3, .accepted = 9, .accepted_per_position = {3, 3, 3}, .prefix_cache_hits = 1};
  const auto again = engine::counters_from_json(engine::to_json(counters)).value();
  CHECK(again.drafts == 3);
  CHECK(again.accepted_per_position == counters.accepted_per_position);
  CHECK_FALSE(engine::counters_from_json(nlohmann::json::array()).has_value());
  CHECK_FALSE(engine::counters_from_json({{"drafts", "3"}}).has_value());
}

TEST_CASE("engine: only decode windows inside the measured window count, and other log lines are passed over") {
  auto folder = base::TempDir::create().value();
  const auto log = folder.path() / "engine.log";
  REQUIRE(base::write_file_atomic(
              log,
              "plain text about decode_window\n"
              "{\"event\":\"decode_window\",\"unix_ns_begin\":50,\"unix_ns_end\":150,\"steps\":40,\"accepted\":1}\n"
              "{\"event\":\"decode_window\",\"unix_ns_begin\":100,\"unix_ns_end\":200,\"steps\":40,\"accepted\":188}\n"
              "{\"event\":\"decode_window\",\"unix_ns_begin\":200,\"unix_ns_end\":301,\"steps\":40,\"accepted\":2}\n"
              "{\"event\":\"decode_window\",\"unix_ns_begin\":\"x\",\"unix_ns_end\":150,\"steps\":0}\n"
              "{\"event\":\"decode_window\",\"unix_ns_be")
              .has_value());
  const auto windows = engine::read_windows(log, 100, 300);
  REQUIRE(windows.size() == 1);
  CHECK(windows[0].acceptance_length() == Approx(5.7));
  CHECK(engine::read_windows(folder.path() / "absent.log", 0, 1).empty());
}
