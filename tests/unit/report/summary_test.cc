#include "orchestrator/report/summary.h"

#include <nlohmann/json.hpp>

#include "orchestrator/diag/rules/judge.h"
#include "orchestrator/report/result.h"
#include "tests/support/catch.h"

using namespace sweep;
using nlohmann::json;

namespace {

plan::Job research_job() {
  plan::Job job;
  job.id = "0123456789ab";
  job.entry = "embedded-entry";
  job.model = "org/model";
  job.model_prefix = "m";
  job.revision = std::string(40, 'a');
  job.framework = "embedded";
  job.runner = "local";
  job.isl = 8192;
  job.osl = 256;
  job.concurrency = 1;
  job.num_draft_tokens = 7;
  job.acceptance = {plan::AcceptanceSource::kExplicit, 5.7};
  job.research_only = true;
  job.authorization = "for comparison only";
  job.deviations = {"acceptance is forced"};
  return job;
}

json document(const plan::Job& job, const judge::Verdict& verdict) {
  const sample::Summary summary = sample::summarise({});
  return report::result_document({.job = job,
                                  .summary = summary,
                                  .verdict = verdict,
                                  .acceptance = judge::Realised::counted(450, 2115),
                                  .planned_requests = 10,
                                  .kernels = {{"arch", "cpu"}, {"content_id", "abc"}},
                                  .power = {{"measured", false}, {"reason", "no GPU was used"}}});
}

}  // namespace

TEST_CASE("report: the result holds the documented top-level keys") {
  const json result = document(research_job(), {});
  for (const char* key :
       {"schema_version", "entry", "point", "engine", "valid", "reasons", "research_only", "scope", "workload",
        "acceptance", "latency_ms", "throughput", "weights", "kernels", "power", "provenance"})
    CHECK(result.contains(key));
  for (const char* key : {"ttft", "tpot", "itl", "e2el"}) CHECK(result["latency_ms"].contains(key));
}

TEST_CASE("report: the device time of a verification step is shown where the engine tells it") {
  json result = document(research_job(), {});
  CHECK(!contains(report::summary_text(result, false), "verification step "));
  result["engine"] = {
      {"server_info", {{"layers", 4}, {"steps", {{"verify_step_us", 386.28}, {"attention_share", 0.0789}}}}}};
  const std::string expected = "386.3 us on the device for 4 layers, 7.9 % of it attention";
  CHECK(contains(report::summary_text(result, false), "verification step      " + expected));
  CHECK(contains(report::summary_markdown(result), "| Verification step | " + expected));
}

TEST_CASE("report: kernels that were gated beside the engine's own are not said to have served it") {
  json result = document(research_job(), {});
  CHECK(!contains(report::summary_text(result, false), "not the engine's own"));
  CHECK(contains(result["scope"].dump(), "Kernel build cpu-abc."));
  const plan::Job job = research_job();
  const sample::Summary summary;
  const judge::Verdict verdict;
  result = report::result_document({.job = job,
                                    .summary = summary,
                                    .verdict = verdict,
                                    .kernels = {{"arch", "sm_90a"}, {"content_id", "abc"}, {"used_by_engine", false}}});
  CHECK(contains(report::summary_text(result, false), " cells), not the engine's own\n"));
  CHECK(contains(report::summary_markdown(result), ", not the engine's own |"));
  CHECK(contains(result["scope"].dump(), "ran through kernels of its own, which were not."));
}

TEST_CASE("report: what was not measured is null, never zero") {
  const json result = document(research_job(), {});
  CHECK(result["latency_ms"]["ttft"]["mean"].is_null());
  CHECK(result["latency_ms"]["ttft"]["count"] == 0);
  CHECK(result["throughput"]["output_tokens_per_second"].is_null());
  CHECK(result["power"]["measured"] == false);
  CHECK(result["acceptance"]["realised"].get<double>() == Approx(5.7));
}

TEST_CASE("report: power is shown with what the clocks did, in every output and the flat file") {
  const plan::Job job = research_job();
  sample::Summary summary = sample::summarise({});
  summary.requests = 10;
  summary.completion_tokens = 2560;
  const judge::Verdict verdict;
  report::Record record{.job = job,
                        .summary = summary,
                        .verdict = verdict,
                        .planned_requests = 10,
                        .kernels = {{"arch", "cpu"}, {"content_id", "abc"}},
                        .power = {{"measured", true},
                                  {"valid", true},
                                  {"total_energy_j", 5269.0625},
                                  {"avg_total_power_w", 1405.083},
                                  {"avg_power_per_gpu_w", 702.5415},
                                  {"joules_per_output_token", 2.058228},
                                  {"throttling", "power cap"},
                                  {"clock_decays", true},
                                  {"drop_pct", 19.34}}};
  const std::string expected =
      "5269.1 J, 1405.1 W in total, 2.058228 J per output token; power cap; the SM clock fell steadily by 19.3 %";
  const json result = report::result_document(record);
  CHECK(contains(report::summary_text(result, false), expected));
  CHECK(contains(report::summary_markdown(result), "1405.1 W in total"));
  const json flat = report::aggregate_document(record);
  CHECK(flat["power_valid"] == 1);
  CHECK(flat["avg_power_w"] == 702.5415);
  CHECK(flat["joules_per_successful_query"].get<double>() == Approx(526.90625));
  CHECK_FALSE(flat.contains("joules_per_input_token"));

  CHECK_FALSE(contains(report::summary_text(result, false), "; from"));
  record.power["gpus"] = {{{"samples", 44}}, {{"samples", 3}}};
  CHECK(contains(report::summary_text(report::result_document(record), false), "token; from 3 samples; power cap"));
  record.power["gpus"] = {{{"samples", 44}}, {{"samples", 10}}};
  CHECK_FALSE(contains(report::summary_text(report::result_document(record), false), "; from"));

  record.power = {{"measured", true}, {"valid", false}, {"total_energy_j", nullptr}};
  CHECK(report::aggregate_document(record)["power_valid"] == 0);
  CHECK_FALSE(report::aggregate_document(record).contains("avg_power_w"));
  CHECK(contains(report::summary_markdown(report::result_document(record)), "measured, and not valid"));
}

TEST_CASE("report: research-only and scope are in every output") {
  const json result = document(research_job(), {});
  const std::string text = report::summary_text(result, false);
  CHECK(contains(text, "RESEARCH ONLY"));
  CHECK(contains(text, "for comparison only"));
  CHECK(contains(text, "never comparable with a full model"));
  const std::string markdown = report::summary_markdown(result);
  CHECK(contains(markdown, "Research only: not an official result"));
  CHECK(contains(markdown, "acceptance is forced"));
  CHECK(contains(markdown, "was forced"));
}

TEST_CASE("report: every failed condition is shown, and the verdict is not softened") {
  const judge::Verdict verdict{{{diag::rule::judge_lengths, judge::Outcome::kFailed, "reason one"},
                                {diag::rule::judge_weights, judge::Outcome::kFailed, "reason two"}}};
  const json result = document(research_job(), verdict);
  for (const std::string& out : {report::summary_text(result, false), report::summary_markdown(result)}) {
    CHECK(contains(out, "INVALID"));
    CHECK(contains(out, "reason one"));
    CHECK(contains(out, "reason two"));
  }
}

TEST_CASE("report: text from files cannot become markup") {
  plan::Job job = research_job();
  job.entry = "a|b<script>`x`\n# heading";
  const std::string markdown = report::summary_markdown(document(job, {}));
  CHECK_FALSE(contains(markdown, "<script>"));
  CHECK(contains(markdown, "a\\|b&lt;script>\\`x\\` # heading"));
}

TEST_CASE("report: no escape sequences without colour") {
  CHECK_FALSE(contains(report::summary_text(document(research_job(), {}), false), "\x1b"));
  CHECK(contains(report::summary_text(document(research_job(), {}), true), "\x1b["));
}

TEST_CASE("report: a damaged result is shown as far as it goes, without an exception") {
  for (const json& damaged : {json::object(), json{{"latency_ms", 3}, {"reasons", "x"}}, json::array()}) {
    CHECK_FALSE(report::summary_text(damaged, false).empty());
    CHECK_FALSE(report::summary_markdown(damaged).empty());
  }
}

TEST_CASE("report: per-GPU throughput exists only where there are GPUs") {
  plan::Job job = research_job();
  sample::Summary summary = sample::summarise({});
  summary.total_token_throughput = 800;
  summary.output_token_throughput = 80;
  const judge::Verdict verdict;
  const auto aggregate = [&] {
    return report::aggregate_document({.job = job, .summary = summary, .verdict = verdict});
  };
  CHECK_FALSE(aggregate().contains("tput_per_gpu"));
  job.gpus = 8;
  job.tp = 8;
  CHECK(aggregate()["tput_per_gpu"].get<double>() == Approx(100));
  CHECK(aggregate()["input_tput_per_gpu"].get<double>() == Approx(90));
}
