// The plan of the checkout's own matrix.
#include <nlohmann/json.hpp>

#include "orchestrator/diag/render.h"
#include "orchestrator/plan/expand.h"
#include "orchestrator/plan/rows.h"
#include "orchestrator/report/matrix_summary.h"
#include "orchestrator/schema/checkout.h"
#include "tests/golden/golden.h"
#include "tests/support/catch.h"

using namespace sweep;

TEST_CASE("plan: the checkout's own entries give the expected jobs") {
  const testing::CurrentFolder folder(SWEEP_SOURCE_DIR);
  const schema::Checkout checkout = schema::load_checkout(".");
  const plan::Plan plan = plan::expand(checkout, {});
  CHECK(plan.diagnostics.empty());
  testing::check_golden(testing::golden_folder() / "plan" / "checkout.out", plan::plan_table(plan.jobs));
  nlohmann::json jobs = nlohmann::json::array();
  for (const plan::Job& job : plan.jobs) jobs.push_back(plan::to_json(job));
  testing::check_golden(testing::golden_folder() / "plan" / "checkout.json", jobs.dump(2) + "\n");
}

TEST_CASE("plan: the checkout's own entries give the expected rows of the job matrix") {
  const testing::CurrentFolder folder(SWEEP_SOURCE_DIR);
  const plan::MatrixRows rows = plan::full_sweep(schema::load_checkout("."), {});
  CHECK(rows.diagnostics.empty());
  const auto parsed = nlohmann::ordered_json::parse(rows.json, nullptr, false);
  REQUIRE(parsed.is_array());
  testing::check_golden(testing::golden_folder() / "plan" / "rows.json", parsed.dump(2) + "\n");
}

TEST_CASE("plan: the summary of the checkout's own entries reads as expected") {
  const testing::CurrentFolder folder(SWEEP_SOURCE_DIR);
  const plan::MatrixSummary summary = plan::summarise(schema::load_checkout("."), nullptr);
  const std::filesystem::path golden = testing::golden_folder() / "plan";
  const auto text = [&](report::TableStyle style, report::Language language) {
    return report::matrix_summary(summary, style, language);
  };
  testing::check_golden(golden / "summary.md", text(report::TableStyle::kMarkdown, report::Language::kEnglish));
  testing::check_golden(golden / "summary.zh.md", text(report::TableStyle::kMarkdown, report::Language::kChinese));
  testing::check_golden(golden / "summary.txt", text(report::TableStyle::kText, report::Language::kEnglish));
  testing::check_golden(golden / "summary.json", report::matrix_summary_json(summary).dump(2) + "\n");
}
