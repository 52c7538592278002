#include "orchestrator/engine/embedded/engine_metrics.h"

#include "tests/support/catch.h"

using namespace sweep::engine::embedded;

TEST_CASE("metrics: names, types, labels and values are in Prometheus' text form") {
  MetricValues values;
  values.drafts = 45;
  values.accepted_tokens = 211;
  values.accepted_at[4] = 31;
  values.finished_length = 10;
  values.kv_usage = 0.25;
  const std::string text = metrics_text(values, 7, "m");
  CHECK(contains(text, "# TYPE embedded:spec_decode_num_drafts_total counter\n"));
  CHECK(contains(text, "\nembedded:spec_decode_num_drafts_total{model_name=\"m\"} 45\n"));
  CHECK(contains(text, "\nembedded:spec_decode_num_accepted_tokens_total{model_name=\"m\"} 211\n"));
  CHECK(contains(text, "per_pos_total{model_name=\"m\",position=\"4\"} 31\n"));
  CHECK(contains(text, "per_pos_total{model_name=\"m\",position=\"6\"} 0\n"));
  CHECK(!contains(text, "position=\"7\""));
  CHECK(contains(text, "embedded:request_success_total{model_name=\"m\",finished_reason=\"length\"} 10\n"));
  CHECK(contains(text, "embedded:prefix_cache_hits_total{model_name=\"m\"} 0\n"));
  CHECK(contains(text, "embedded:kv_cache_usage_perc{model_name=\"m\"} 0.25\n"));
}

TEST_CASE("metrics: device times are there where they are measured, with the share of attention in profiled steps") {
  MetricValues values;
  CHECK(!contains(metrics_text(values, 7, "m"), "verify_step_seconds"));
  values.device.verify_steps = 4;
  values.device.verify_s = 0.5;
  values.device.profiled_steps = 2;
  values.device.profiled_s = 0.8;
  values.device.part_s[static_cast<size_t>(StepPart::kAttention)] = 0.2;
  const std::string text = metrics_text(values, 7, "m");
  CHECK(contains(text, "# TYPE embedded:verify_step_seconds summary\n"));
  CHECK(contains(text, "\nembedded:verify_step_seconds_sum{model_name=\"m\"} 0.5\n"));
  CHECK(contains(text, "\nembedded:verify_step_seconds_count{model_name=\"m\"} 4\n"));
  CHECK(contains(text, "\nembedded:attention_share{model_name=\"m\"} 0.25\n"));
  CHECK(StepTimes().attention_share() == 0);
}

TEST_CASE("metrics: a model name cannot break out of its label") {
  CHECK(contains(metrics_text({}, 0, "a\"b\\c\nd"), R"({model_name="a\"b\\c\nd"})"));
}
