#include "orchestrator/report/matrix_summary.h"

#include <nlohmann/json.hpp>

#include "tests/support/catch.h"

using namespace sweep;

namespace {

plan::MatrixSummary summary_of(size_t changes) {
  plan::MatrixSummary summary;
  summary.entries = 1;
  summary.jobs = summary.points = 3;
  summary.runners.push_back(
      {.runner = "h200", .gpu_type = "h200", .jobs = 3, .points = 3, .least_gpus = 8, .most_gpus = 8});
  summary.has_base = true;
  for (size_t i = 0; i < changes; ++i)
    summary.changes.push_back({"entry-" + std::to_string(i), "8k1k tp8", {64}, {}, {4}, {{"image", "\"a\"", ""}}});
  summary.totals = {changes, 0, changes};
  return summary;
}

std::string markdown(const plan::MatrixSummary& summary, report::Language language = report::Language::kEnglish) {
  return report::matrix_summary(summary, report::TableStyle::kMarkdown, language);
}

}  // namespace

TEST_CASE("matrix summary: GPU-hours are bounded only where every job states a limit") {
  plan::MatrixSummary summary = summary_of(0);
  CHECK(contains(markdown(summary), "| 8 | unknown |"));
  summary.runners[0].jobs_with_limit = 1;
  summary.runners[0].limited_gpu_hours = 16;
  CHECK(contains(markdown(summary), "| 8 | unknown for 2 of the jobs, at most 16.0 for the others |"));
  CHECK(report::matrix_summary_json(summary)["runners"][0]["gpu_hours_at_most"].is_null());
  summary.runners[0].jobs_with_limit = 3;
  CHECK(contains(markdown(summary), "| 8 | ≤ 16.0 |"));
  CHECK(report::matrix_summary_json(summary)["runners"][0]["gpu_hours_at_most"] == 16);
}

TEST_CASE("matrix summary: long lists are cut and counted, totals are not") {
  const std::string text = markdown(summary_of(5000));
  CHECK(contains(text, "points added: 5000; removed: 0; changed: 5000"));
  CHECK(contains(text, "entry-59 "));
  CHECK_FALSE(contains(text, "entry-60 "));
  CHECK(contains(text, "further rows, not shown: 4940"));
  CHECK(text.size() < 100'000);
  CHECK(report::matrix_summary_json(summary_of(5000))["changes"]["recipes"].size() == 5000);
}

TEST_CASE("matrix summary: a change names the field, what it was and what it is") {
  const std::string text = markdown(summary_of(1));
  CHECK(contains(text, "| entry-0 | 8k1k tp8 | 64 |  | 4 | image: \"a\" → not stated |"));
  CHECK(contains(markdown(summary_of(0)), "no point differs from the base"));
}

TEST_CASE("matrix summary: both languages hold the same numbers") {
  const auto digits = [](const std::string& text) {
    std::string kept;
    for (const char c : text)
      if (c >= '0' && c <= '9') kept += c;
    return kept;
  };
  CHECK(digits(markdown(summary_of(70))) == digits(markdown(summary_of(70), report::Language::kChinese)));
}
