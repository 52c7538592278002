// The page of metric definitions against every output that prints them.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "orchestrator/base/file.h"
#include "orchestrator/report/result.h"
#include "orchestrator/report/summary.h"
#include "tests/support/catch.h"

using namespace sweep;
using nlohmann::json;

namespace {

using Cells = std::vector<std::string>;

std::string page() {
  return base::read_file(std::filesystem::path(SWEEPCTL_SOURCE_DIR) / "orchestrator/sample/README.md").value();
}

std::string trimmed(std::string text) {
  const auto is_frame = [](char c) { return c == ' ' || c == '`'; };
  while (!text.empty() && is_frame(text.back())) text.pop_back();
  while (!text.empty() && is_frame(text.front())) text.erase(text.begin());
  return text;
}

// The rows of the table whose header begins so, without frames.
std::vector<Cells> table(const std::string& header) {
  std::istringstream lines(page());
  std::vector<Cells> rows;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(header)) {
      inside = true;
    } else if (inside && !line.starts_with("|")) {
      break;
    } else if (inside && !line.starts_with("| ---")) {
      Cells cells;
      for (size_t at = 1; at < line.size();) {
        const size_t end = std::min(line.find('|', at), line.size());
        cells.push_back(trimmed(line.substr(at, end - at)));
        at = end + 1;
      }
      rows.push_back(std::move(cells));
    }
  }
  return rows;
}

// Two requests of three chunks each, one of them sent late.
std::vector<sample::Sample> samples() {
  std::vector<sample::Sample> made;
  for (int64_t i = 0; i < 2; ++i) {
    sample::Sample s{.sequence = i, .scheduled_ns = i * 1'000'000, .sent_ns = i * 1'500'000};
    s.chunks = {{40'000'000, 1}, {46'000'000 + i, 6}, {52'000'000, 5}};
    s.first_token_ns = s.chunks.front().ns;
    s.last_token_ns = s.chunks.back().ns;
    s.prompt_tokens = 8;
    s.completion_tokens = s.received_tokens = 12;
    made.push_back(s);
  }
  return made;
}

struct Outputs {
  json result, aggregate;
  std::string text, markdown, raw_text, raw_markdown;
};

Outputs outputs() {
  plan::Job job;
  job.isl = 8;
  job.osl = 12;
  const sample::Summary summary = sample::summarise(samples());
  const judge::Verdict verdict;
  const report::Record record{.job = job,
                              .summary = summary,
                              .verdict = verdict,
                              .planned_requests = 2,
                              .load = {.request_rate = 1000, .arrivals = "fixed"},
                              .kernels = json::object()};
  Outputs out{.result = report::result_document(record), .aggregate = report::aggregate_document(record)};
  const json figures = report::request_figures(summary);
  out.text = report::summary_text(out.result, false);
  out.markdown = report::summary_markdown(out.result);
  out.raw_text = report::requests_text(figures, false);
  out.raw_markdown = report::requests_markdown(figures);
  return out;
}

// The figures behind a label, up to the end of the line.
std::string row_of(const std::string& text, const std::string& label) {
  const size_t at = text.find(label);
  INFO(label);
  REQUIRE(at != std::string::npos);
  return text.substr(at, text.find('\n', at) - at);
}

}  // namespace

TEST_CASE("metrics page: every latency of a result has its definition and its row, and no other") {
  const auto definitions = table("| metric | definition");
  const auto places = table("| metric | `result.json`");
  REQUIRE(definitions.size() == places.size());
  std::set<std::string> keys;
  for (size_t i = 0; i < places.size(); ++i) {
    CHECK(definitions[i][0] == places[i][0]);
    keys.insert(places[i].at(1));
  }
  std::set<std::string> written;
  const Outputs out = outputs();
  for (const auto& [key, value] : out.result["latency_ms"].items()) written.insert(key);
  CHECK(keys == written);
}

TEST_CASE("metrics page: text, Markdown and flat file print the figure that the page says, under its name") {
  const Outputs out = outputs();
  for (const Cells& row : table("| metric | `result.json`")) {
    const json& figures = out.result["latency_ms"][row.at(1)];
    const double mean = figures["mean"];
    const std::string count = figures["count"].dump();
    for (const auto& [text, label] :
         {std::pair(out.text, "  " + row.at(2) + " "), std::pair(out.raw_text, "  " + row.at(2) + " "),
          std::pair(out.markdown, "| " + row.at(3) + " |"), std::pair(out.raw_markdown, "| " + row.at(3) + " |")}) {
      const std::string printed = row_of(text, label);
      CHECK((contains(printed, fmt::format("{:.1f}", mean)) || contains(printed, fmt::format("{:.3f}", mean))));
      CHECK(contains(printed, count));
    }
    if (const std::string flat = row.size() > 5 ? row.at(5) : std::string(); !flat.empty())
      CHECK(out.aggregate["mean_" + flat].get<double>() == mean / 1000);
  }
}

TEST_CASE("metrics page: the percentiles need as many values as the page says") {
  const std::string text = page();
  for (const auto& [percentile, name] :
       {std::pair(stats::kP50, "p50"), std::pair(stats::kP90, "p90"), std::pair(stats::kP99, "p99")})
    CHECK(contains(text, fmt::format("{}{} for {}", stats::minimum_count(percentile),
                                     name == std::string("p50") ? " values" : "", name)));
}
