#include "orchestrator/engine/server.h"

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
  const auto counters = engine::parse_counters(kPage, "vllm:", "page");
  REQUIRE(counters.has_value());
  CHECK(counters->drafts == 150);
  CHECK(counters->accepted == 705);
  CHECK(counters->accepted_per_position == std::vector<int64_t>{150, 0, 7});
  CHECK(counters->prefix_cache_hits == 12);
}

TEST_CASE("engine: a page without the draft counter is not a reading of zero") {
  const auto rule_of = [](std::string_view page) {
    const auto counters = engine::parse_counters(page, "embedded:", "page");
    return counters ? std::string_view("none") : diag::rule_info(counters.error().rule).slug;
  };
  CHECK(rule_of("embedded:spec_decode_num_drafts_total 5\n") == "none");
  CHECK(rule_of("") == "engine/no-counters");
  CHECK(rule_of("vllm:spec_decode_num_drafts_total 5\n") == "engine/no-counters");
  CHECK(rule_of("embedded:spec_decode_num_drafts_total NaN\n") == "engine/malformed-metrics");
  CHECK(rule_of("embedded:spec_decode_num_drafts_total{a=\"b\" 5\n") == "engine/malformed-metrics");
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
