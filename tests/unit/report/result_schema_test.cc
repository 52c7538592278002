// What is written as result.json is what `validate` accepts: the writer and the field table are held against each
// other.
#include <nlohmann/json.hpp>
#include <set>

#include "orchestrator/diag/render.h"
#include "orchestrator/diag/rules/judge.h"
#include "orchestrator/report/result.h"
#include "orchestrator/schema/json_schema.h"
#include "orchestrator/schema/kinds.h"
#include "orchestrator/yaml/parse.h"
#include "tests/support/catch.h"

using namespace sweep;
using nlohmann::json;

namespace {

plan::Job job() {
  plan::Job job;
  job.id = "0123456789ab";
  job.entry = "embedded-entry";
  job.model = "org/model";
  job.model_prefix = "m";
  job.revision = std::string(40, 'a');
  job.precision = "fp8";
  job.framework = "embedded";
  job.runner = "local";
  job.spec_decoding = "dspark";
  job.isl = 64;
  job.osl = 8;
  job.concurrency = 1;
  job.requests = 2;
  job.num_draft_tokens = 7;
  job.acceptance = {plan::AcceptanceSource::kExplicit, 5.7};
  job.research_only = true;
  job.authorization = "for comparison only";
  job.deviations = {"acceptance is forced"};
  return job;
}

sample::Summary measured() {
  sample::Summary summary = sample::summarise({});
  summary.requests = 2;
  summary.prompt_tokens = 128;
  summary.completion_tokens = 16;
  summary.window = sample::Window{.start_ns = 0, .end_ns = 2'000'000'000};
  summary.request_throughput = 1;
  summary.output_token_throughput = 8;
  summary.total_token_throughput = 72;
  const std::vector<double> times{0.000012, 1e17};  // both need an exponent in JSON
  summary.ttft_ms = stats::describe(times).value();
  summary.e2e_ms = stats::describe(times).value();
  return summary;
}

json document(const plan::Job& job, const sample::Summary& summary, const judge::Verdict& verdict) {
  return report::result_document(
      {.job = job,
       .summary = summary,
       .verdict = verdict,
       .acceptance = judge::Realised::counted(450, 2115),
       .windows = {judge::Window::counted(40, 188)},
       .accepted_per_position = {450, 450, 450, 450, 315, 0, 0},
       .planned_requests = 2,
       .seed = 1,
       .engine =
           {{"name", "embedded"}, {"version", "0.1.0"}, {"launcher", "local"}, {"base_url", "http://127.0.0.1:1"}},
       .weights = {{"verified", true}, {"revision", job.revision}},
       .kernels = {{"arch", "cpu"}, {"content_id", "abc"}},
       .provenance = {{"measured_from", "2030-01-31T12:00:00Z"}, {"measured_to", "2030-01-31T12:00:02Z"}},
       .power = {{"measured", false}, {"reason", "no GPU was used"}}});
}

std::string findings(const json& result) {
  diag::Diagnostics out;
  const schema::DocumentPtr parsed = yaml::parse_json("result.json", result.dump(2), out);
  REQUIRE(parsed != nullptr);
  CHECK(schema::find_kind(parsed->root(), "x.json") == schema::FileKind::kResult);
  schema::decode_result(parsed, out);
  return diag::render_text(out, {});
}

const judge::Verdict kGood{{{diag::rule::judge_lengths, judge::Outcome::kPassed, "as asked"},
                            {diag::rule::judge_image, judge::Outcome::kNotApplicable, "no image"}}};
const judge::Verdict kBad{{{diag::rule::judge_lengths, judge::Outcome::kFailed, "reason one"},
                           {diag::rule::judge_weights, judge::Outcome::kFailed, "reason two"}}};

}  // namespace

TEST_CASE("result schema: what the report writes validates, good or bad, measured or not") {
  CHECK(findings(document(job(), measured(), kGood)) == "");
  CHECK(findings(document(job(), measured(), kBad)) == "");
  CHECK(findings(document(job(), sample::summarise({}), kBad)) == "");
  plan::Job golden = job();
  golden.acceptance.source = plan::AcceptanceSource::kGolden;
  golden.research_only = false;
  golden.authorization.clear();
  golden.deviations.clear();
  golden.gpus = 8;
  golden.tp = 8;
  CHECK(findings(document(golden, measured(), kGood)) == "");
}

TEST_CASE("result schema: the table and the writer have the same keys") {
  const json result = document(job(), measured(), kGood);
  const auto schema = schema::json_schema(schema::FileKind::kResult);
  std::set<std::string> written;
  std::set<std::string> described;
  for (const auto& [key, value] : result.items()) written.insert(key);
  for (const auto& [key, value] : schema["properties"].items()) described.insert(key);
  CHECK(written == described);
}

TEST_CASE("result schema: a key that the writer would lose or add is found") {
  for (const char* key : {"scope", "valid", "latency_ms", "power", "kind"}) {
    INFO(key);
    json result = document(job(), measured(), kGood);
    result.erase(key);
    if (std::string(key) != "kind") CHECK(contains(findings(result), "lacks the field"));
  }
  json result = document(job(), measured(), kGood);
  result["latency_ms"]["ttft"]["p95"] = 1;
  CHECK(contains(findings(result), "unknown field \"p95\" in a distribution"));
}
