#include "orchestrator/engine/prometheus.h"

#include <cmath>

#include "tests/support/catch.h"

using namespace sweep;
using engine::MetricsPage;
using engine::MetricType;

namespace {

MetricsPage parsed(std::string_view text) {
  auto page = engine::parse_metrics(text, "page.txt");
  INFO((page ? std::string() : page.error().message));
  REQUIRE(page.has_value());
  return std::move(*page);
}

struct RefusedPage {
  uint32_t line = 0;
  std::string message;
};
RefusedPage refused(std::string_view text) {
  const auto page = engine::parse_metrics(text, "page.txt");
  if (page) return {0, "accepted"};
  CHECK(diag::rule_info(page.error().rule).slug == "engine/malformed-metrics");
  CHECK(page.error().where->file == "page.txt");
  return {page.error().where->line, page.error().message};
}

}  // namespace

TEST_CASE("metrics page: names, labels with escapes, values of every form, time stamps") {
  const MetricsPage page = parsed(
      "# a comment\n"
      "\n"
      "plain 3\n"
      "a:b_c{z=\"1\",a=\"with \\\"quotes\\\", \\\\ and \\n, and } too\",} 4.5e+2 1700000000123\n"
      "  spaced\t{ a = \"b\" } \t7  \r\n"
      "infinite +Inf\n"
      "negative{x=\"\"} -Inf\n"
      "nothing NaN\n"
      "small -1.5\n"
      "latency_bucket{le=\"+Inf\"} 12 # {trace_id=\"x\"} 0.5\n"
      "seconds 1 1700000000.5\n"
      "# EOF\n");
  REQUIRE(page.series.size() == 9);
  CHECK(page.series[0].name == "plain");
  CHECK(page.series[0].line == 3);
  CHECK(page.series[1].label("a") == "with \"quotes\", \\ and \n, and } too");
  CHECK(page.series[1].label("z") == "1");
  CHECK(page.series[1].label("absent").empty());
  CHECK(page.series[1].value == 450);
  CHECK(page.series[1].timestamp_ms == 1700000000123);
  CHECK(page.series[2].value == 7);
  CHECK(std::isinf(page.series[3].value));
  CHECK(page.series[4].value < 0);
  CHECK(std::isnan(page.series[5].value));
  CHECK(page.series[6].value == -1.5);
  CHECK(page.series[7].value == 12);
}

TEST_CASE("metrics page: a type belongs to the samples' name, or in OpenMetrics to the name without _total") {
  const MetricsPage page = parsed(
      "# HELP requests_total How many.\n# TYPE requests_total counter\nrequests_total 1\n"
      "# TYPE other counter\nother_total 1\n# TYPE level gauge\nlevel 1\nplain_total 2\n");
  CHECK(page.type_of("requests_total") == MetricType::kCounter);
  CHECK(page.type_of("other_total") == MetricType::kCounter);
  CHECK(page.type_of("level") == MetricType::kGauge);
  CHECK(page.type_of("plain_total") == MetricType::kUntyped);
}

TEST_CASE("metrics page: whatever the format does not have is refused at its line") {
  CHECK(refused("a 1\nb 2").line == 2);
  CHECK(contains(refused("a 1\nb 2").message, "cut"));
  CHECK(refused("a 1\n9lives 1\n").line == 2);
  CHECK(contains(refused("a x\n").message, "\"x\""));
  CHECK(contains(refused("a\n").message, "no number"));
  CHECK(contains(refused("a 1e999\n").message, "no number"));
  CHECK(contains(refused("a 0x10\n").message, "no number"));
  CHECK(contains(refused("a 1 soon\n").message, "time stamp"));
  CHECK(contains(refused("a 1 2 3\n").message, "more after"));
  CHECK(contains(refused("a{b=\"c\" 1\n").message, "comma or the closing brace"));
  CHECK(contains(refused("a{b=\"c 1\n").message, "does not end"));
  CHECK(contains(refused("a{b=c} 1\n").message, "quotes"));
  CHECK(contains(refused("a{b} 1\n").message, "no value"));
  CHECK(contains(refused("a{b=\"\\t\"} 1\n").message, "escape"));
  CHECK(contains(refused("a{b=\"1\",b=\"2\"} 1\n").message, "twice"));
  CHECK(contains(refused("a{b=\"1\",c=\"2\"} 1\na{c=\"2\",b=\"1\"} 2\n").message, "line 1"));
  CHECK(contains(refused("# TYPE a counter\n# TYPE a gauge\n").message, "second type"));
  CHECK(contains(refused("# TYPE a speed\n").message, "speed"));
  CHECK(contains(refused("# TYPE\n").message, "names no metric"));
  CHECK(contains(refused("# EOF\na 1\n").message, "# EOF"));
  CHECK(contains(refused("a{b=\"\xff\"} 1\n").message, "UTF-8"));
  CHECK(contains(refused(std::string_view("a \0 1\n", 6)).message, "zero byte"));
}

TEST_CASE("metrics page: a page beyond any engine's is refused before it is read") {
  const std::string large(engine::kMostMetricsBytes + 1, 'a');
  CHECK(contains(refused(large).message, "more than"));
}
