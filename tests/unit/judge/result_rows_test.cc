#include "orchestrator/judge/result_rows.h"

#include <nlohmann/json.hpp>

#include "orchestrator/diag/render.h"
#include "orchestrator/yaml/parse.h"
#include "tests/support/catch.h"

using namespace sweep;
using judge::ResultRows;

namespace {

struct Checked {
  ResultRows rows;
  nlohmann::json values;
  std::string findings;
};

Checked check(const std::string& text) {
  diag::Diagnostics out;
  const auto document = yaml::parse_json("rows.json", text, out);
  REQUIRE(document != nullptr);
  CHECK(out.empty());
  CHECK(judge::holds_result_rows(*document));
  Checked checked{.rows = judge::check_result_rows(*document), .values = {}, .findings = {}};
  checked.values = judge::values_json(checked.rows);
  checked.findings = diag::render_text(checked.rows.findings, {});
  return checked;
}

}  // namespace

TEST_CASE("result rows: GPUs are workers x tp x pp x pcp, and ep and dcp share them") {
  const Checked checked = check(
      R"([{"id": "a", "tp": 4, "pp": 2, "pcp_size": 3, "dcp_size": 4, "ep": 8, "output_throughput": 48, "gpus_with_power": 24},
          {"id": "b", "prefill_num_workers": 2, "prefill_tp": 4, "prefill_pcp_size": 2, "decode_num_workers": 1,
           "decode_tp": 8, "decode_ep": 8, "output_throughput": 9600.0},
          {"id": "c", "prefill_num_workers": 2, "prefill_tp": 4, "decode_num_workers": 0, "decode_tp": 0}])");
  INFO(checked.findings);
  CHECK(checked.findings.empty());
  CHECK(checked.values["gpus"] == nlohmann::json({{"a", 24}, {"b", 24}, {"c", 8}}));
  CHECK(checked.values["output_tput_per_gpu"]["a"] == 2.0);
  CHECK(checked.values["output_tput_per_gpu"]["b"] == 400.0);
  CHECK(checked.values["output_tput_per_gpu"]["c"].is_null());
  CHECK(checked.values["conflict"].empty());
}

TEST_CASE("result rows: a single row needs no list and no id") {
  CHECK(check(R"({"tp": 8, "output_throughput": 80})").values["output_tput_per_gpu"]["[0]"] == 10.0);
}

TEST_CASE("result rows: replicas that drew power are the denominator, and the conflict is shown") {
  const Checked checked = check(R"({"id": "c", "tp": 1, "data_parallel_size": 8, "dp_attention": "false",
                                    "output_throughput": 8000, "gpus_with_power": 8})");
  INFO(checked.findings);
  CHECK(checked.values["gpus"]["c"] == 8);
  CHECK(checked.values["output_tput_per_gpu"]["c"] == 1000.0);
  CHECK(checked.values["conflict"] == nlohmann::json({"c"}));
  CHECK(contains(checked.findings,
                 "rows.json:1:1: warning: \"c\": the topology is of 1 GPU, with data parallel size 8 of "
                 "8, 8 drew power; figures per GPU are over 8"));
}

TEST_CASE("result rows: data parallel attention splits ranks and adds none") {
  const Checked checked = check(
      R"({"tp": 8, "data_parallel_size": 8, "dp_attention": true, "output_throughput": 80, "gpus_with_power": 8})");
  INFO(checked.findings);
  CHECK(checked.findings.empty());
  CHECK(checked.values["gpus"]["[0]"] == 8);
}

TEST_CASE("result rows: where nothing decides, no figure per GPU is given") {
  const std::string row =
      GENERATE(R"({"tp": 4, "gpus_with_power": 8, "output_throughput": 80})",
               R"({"tp": 1, "data_parallel_size": 8, "output_throughput": 80})",
               R"({"tp": 2, "data_parallel_size": 2, "gpus_with_power": 8, "output_throughput": 80})");
  const Checked checked = check(row);
  INFO(checked.findings);
  CHECK(checked.values["gpus"]["[0]"].is_null());
  CHECK(checked.values["output_tput_per_gpu"]["[0]"].is_null());
  CHECK(checked.values["conflict"].size() == 1);
  CHECK(contains(checked.findings, "error: "));
  CHECK(contains(checked.findings, "[result/gpu-unknown]"));
}

TEST_CASE("result rows: stated figures per GPU are held against the row") {
  CHECK(check(R"({"tp": 8, "output_throughput": 80, "output_tput_per_gpu": 10})").findings.empty());
  const Checked wrong = check(R"({"tp": 8, "output_throughput": 80, "output_tput_per_gpu": 80})");
  INFO(wrong.findings);
  CHECK(
      contains(wrong.findings, "rows.json:1:59: error: \"[0]\": \"output_tput_per_gpu\" is 80, expected 80 / 8 GPUs"));
  CHECK(contains(wrong.findings, "[result/per-gpu]"));
  const Checked decode =
      check(R"({"prefill_tp": 8, "decode_tp": 8, "output_throughput": 80, "output_tput_per_gpu": 10})");
  INFO(decode.findings);
  CHECK(contains(decode.findings, "warning: "));
  CHECK(contains(decode.findings, "over the 8 GPUs of decode alone"));
}

TEST_CASE("result rows: what is no row is refused at its place") {
  const auto refused = [](const std::string& text, std::string_view part) {
    const Checked checked = check(text);
    INFO(checked.findings);
    CHECK_FALSE(checked.rows.readable);
    CHECK(contains(checked.findings, part));
    CHECK(contains(checked.findings, "[result/row]"));
  };
  refused("[7]", "a row is text, expected an object");
  refused(R"([{"id": "a"}])", "there is no \"tp\"");
  refused(R"({"tp": 0})", "rows.json:1:8: error: \"tp\" is");
  refused(R"({"tp": 8, "pp": 1.5})", "expected an integer from 1 to 4096");
  refused(R"({"tp": 99999999999999999999})", "expected an integer from 1 to 4096");
  refused(R"({"prefill_tp": 0, "decode_tp": 0})", "the row is of no GPU");
  refused(R"({"tp": 8, "output_throughput": -1})", "expected a number of at least 0");
  refused(R"([{"id": "a", "tp": 1}, {"id": "a", "tp": 1}])", "two rows are called \"a\"");
}
