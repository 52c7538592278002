#include "orchestrator/engine/spec_counters.h"

#include "orchestrator/base/file.h"
#include "tests/support/catch.h"
#include "tests/support/test_dir.h"

using namespace sweep;
using engine::SpecCounters;

namespace {

engine::MetricsPage page_of(std::string_view text, const std::string& name) {
  auto page = engine::parse_metrics(text, name);
  REQUIRE(page.has_value());
  return std::move(*page);
}

struct Difference {
  SpecCounters counters;
  std::vector<std::string> messages;
};
Difference between(std::string_view before, std::string_view after, std::string_view engine) {
  Difference result;
  diag::Diagnostics diagnostics;
  auto counters = engine::counted_between(page_of(before, "before"), page_of(after, "after"),
                                          *engine::find_counter_names(engine), diagnostics);
  REQUIRE(counters.has_value());
  result.counters = std::move(*counters);
  for (const diag::Diagnostic& d : diagnostics.items()) {
    CHECK(diag::rule_info(d.rule).slug == "engine/counter-reset");
    result.messages.push_back(d.where->file + ": " + d.message);
  }
  return result;
}

std::string counter_refusal(std::string_view text, std::string_view engine) {
  const auto counters = engine::spec_counters(page_of(text, "page"), *engine::find_counter_names(engine));
  if (counters) return "accepted";
  CHECK(diag::rule_info(counters.error().rule).slug == "engine/malformed-metrics");
  return counters.error().message;
}

}  // namespace

TEST_CASE("counters: the difference is summed over engines, and creation times are no counts") {
  const Difference d = between(
      "vllm:spec_decode_num_drafts_total{engine=\"0\"} 100\n"
      "vllm:spec_decode_num_accepted_tokens_total{engine=\"0\"} 10\n"
      "vllm:spec_decode_num_accepted_tokens_created{engine=\"0\"} 1.7e9\n"
      "vllm:prefix_cache_queries_total 100\nvllm:prefix_cache_hits_total 100\n",
      "vllm:spec_decode_num_drafts_total{engine=\"0\"} 300\n"
      "vllm:spec_decode_num_drafts_total{engine=\"1\"} 100\n"
      "vllm:spec_decode_num_draft_tokens_total{engine=\"1\"} 2100\n"
      "vllm:spec_decode_num_accepted_tokens_total{engine=\"0\"} 950\n"
      "vllm:spec_decode_num_accepted_tokens_created{engine=\"0\"} 1.8e9\n"
      "vllm:spec_decode_num_accepted_tokens_total{engine=\"1\"} 470\n"
      "vllm:spec_decode_num_accepted_tokens_per_pos_total{position=\"0\"} 300\n"
      "vllm:spec_decode_num_accepted_tokens_per_pos_total{position=\"1\"} 150\n"
      "vllm:prefix_cache_queries_total 300\nvllm:prefix_cache_hits_total 102\n",
      "vllm");
  CHECK(d.messages.empty());
  CHECK(d.counters.drafts == 300);
  CHECK(d.counters.accepted == 1410);
  CHECK(*d.counters.acceptance_length() == Approx(5.7));
  CHECK(*d.counters.draft_token_acceptance() == Approx(1410.0 / 2100));
  CHECK(d.counters.per_position() == std::vector<double>{1.0, 0.5});
  CHECK(*d.counters.cache_hit_rate() == Approx(0.01));
  CHECK_FALSE(d.counters.prompt_tokens.has_value());
}

TEST_CASE("counters: a series that fell or is gone is a restart, even where the sum rose") {
  const Difference fell = between(
      "embedded:spec_decode_num_drafts_total{e=\"0\"} 100\n"
      "embedded:spec_decode_num_drafts_total{e=\"1\"} 100\n",
      "embedded:spec_decode_num_drafts_total{e=\"0\"} 900\n"
      "embedded:spec_decode_num_drafts_total{e=\"1\"} 5\n",
      "embedded");
  REQUIRE(fell.messages.size() == 1);
  CHECK(contains(fell.messages[0], "after: embedded:spec_decode_num_drafts_total{e=\"1\"} fell from 100 to 5"));
  const Difference gone =
      between("embedded:prompt_tokens_total{e=\"1\"} 3\n", "embedded:prompt_tokens_total 9\n", "embedded");
  REQUIRE(gone.messages.size() == 1);
  CHECK(contains(gone.messages[0], "is not in \"after\" any more"));
  CHECK(between("embedded:prompt_tokens_total 3\nother{a=\"b\"} 7\n", "embedded:prompt_tokens_total 3\n", "embedded")
            .messages.empty());
}

TEST_CASE("counters: steps by accepted drafts give steps and positions") {
  const Difference d = between("atom:mtp_decode_steps_total{accepted_tokens=\"4\"} 1\n",
                               "atom:mtp_decode_steps_total{accepted_tokens=\"0\"} 2\n"
                               "atom:mtp_decode_steps_total{accepted_tokens=\"4\"} 4\n"
                               "atom:mtp_decode_steps_total{accepted_tokens=\"5\"} 5\n"
                               "atom:mtp_accepted_tokens_total 37\n"
                               "atom:prefix_cache_full_tokens_total 100\n"
                               "atom:prefix_cache_cached_tokens_total 1\n"
                               "atom:prefix_cache_offload_tokens_total 2\n",
                               "atom");
  CHECK(d.counters.drafts == 10);
  CHECK(*d.counters.acceptance_length() == Approx(4.7));
  CHECK(d.counters.per_position() == std::vector<double>{0.8, 0.8, 0.8, 0.8, 0.5});
  CHECK(*d.counters.cache_hit_rate() == Approx(0.03));
}

TEST_CASE("counters: an engine without accepted drafts has no acceptance length, and cached tokens are of all tokens") {
  const Difference d = between("",
                               "sglang:spec_verify_calls_total 100\nsglang:prompt_tokens_total 1000\n"
                               "sglang:cached_tokens_total{cache_source=\"device\"} 5\n"
                               "sglang:cached_tokens_total{cache_source=\"host\"} 15\n",
                               "sglang");
  CHECK(d.counters.drafts == 100);
  CHECK_FALSE(d.counters.acceptance_length().has_value());
  CHECK(*d.counters.cache_hit_rate() == Approx(0.02));
}

TEST_CASE("counters: what counts nothing is refused, what is not used may be anything") {
  CHECK(counter_refusal("vllm:prompt_tokens_total 5\nother NaN\n", "vllm") == "accepted");
  CHECK(contains(counter_refusal("vllm:prompt_tokens_total NaN\n", "vllm"), "counts nothing"));
  CHECK(contains(counter_refusal("vllm:prompt_tokens_total -1\n", "vllm"), "counts nothing"));
  CHECK(contains(counter_refusal("vllm:prompt_tokens_total 1.5\n", "vllm"), "counts nothing"));
  CHECK(contains(counter_refusal("vllm:prompt_tokens_total 1e300\n", "vllm"), "counts nothing"));
  CHECK(contains(counter_refusal("# TYPE vllm:prompt_tokens_total gauge\nvllm:prompt_tokens_total 1\n", "vllm"),
                 "no counter"));
  CHECK(contains(
      counter_refusal("vllm:spec_decode_num_accepted_tokens_per_pos_total{position=\"4000000000\"} 1\n", "vllm"),
      "no label \"position\" from 0 to 63"));
  CHECK(contains(counter_refusal("vllm:spec_decode_num_accepted_tokens_per_pos_total 1\n", "vllm"), "no label"));
  CHECK(contains(counter_refusal("atom:mtp_decode_steps_total{accepted_tokens=\"x\"} 1\n", "atom"), "accepted_tokens"));
  CHECK(engine::find_counter_names("vLLM") == nullptr);
}

TEST_CASE("counters: no step and no look-up are no rates") {
  const SpecCounters nothing{.drafts = 0, .draft_tokens = 0, .accepted = 0, .cache_queried = 0, .cache_hits = 0};
  CHECK_FALSE(nothing.acceptance_length().has_value());
  CHECK_FALSE(nothing.draft_token_acceptance().has_value());
  CHECK_FALSE(nothing.cache_hit_rate().has_value());
  CHECK(nothing.per_position().empty());
}

TEST_CASE("counters: the samples of engines say what their description says") {
  const auto data = test::reference_data();
  if (data.empty()) SWEEP_SKIP("no reference data beside the checkout");
  const auto read = [&](const char* name) { return base::read_file(data / "engines" / name).value(); };
  const Difference vllm = between(read("vllm_metrics_before.txt"), read("vllm_metrics_after.txt"), "vllm");
  CHECK(vllm.messages.empty());
  CHECK(vllm.counters.drafts == 450);
  CHECK(vllm.counters.draft_tokens == 3150);
  CHECK(vllm.counters.accepted == 2115);
  CHECK(*vllm.counters.acceptance_length() == Approx(5.7));
  CHECK(vllm.counters.prompt_tokens == 81920);
  CHECK(vllm.counters.generation_tokens == 2560);
  CHECK(vllm.counters.requests == 10);
  CHECK(*vllm.counters.cache_hit_rate() == 0);
  CHECK(vllm.counters.per_position() == std::vector<double>{1, 1, 1, 1, 0.7, 0, 0});

  const engine::MetricsPage sglang = page_of(read("sglang_metrics.txt"), "sglang_metrics.txt");
  CHECK(sglang.series.size() == 4);
  CHECK(sglang.series[0].name == engine::find_counter_names("sglang")->acceptance_gauge);
  CHECK(sglang.series[0].value == 5.7);
  CHECK(sglang.type_of(sglang.series[0].name) == engine::MetricType::kGauge);
}
