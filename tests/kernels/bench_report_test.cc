// What flashmla-bench prints, writes and draws, from given figures.
#include <cmath>
#include <nlohmann/json.hpp>

#include "kernels/bench/device_report.h"
#include "kernels/bench/device_shapes.h"
#include "kernels/bench/transition_plot.h"
#include "tests/support/catch.h"

namespace flashmla::bench {
namespace {

DeviceShape primary_shape() {
  return {.num_heads = 8, .s_q = 8, .batch = 1, .main_topk = 128, .extra_topk = 512};
}

Timing timing(double us) {
  return summarise({us * 0.99, us, us * 1.01}, 100);
}

ShapeResult measured(const DeviceShape& shape, double cold, double read_us) {
  ShapeResult result;
  result.shape = shape;
  result.unique_tokens = 3463;
  result.unique_bytes = 3463 * 584;
  result.attended_bytes = 5120 * 584;
  result.sets = 109;
  result.cold = timing(cold);
  result.warm = timing(cold * 0.9);
  result.read = timing(read_us);
  result.read_grid = "1 x 256 threads, one pass";
  result.clocks_after = Clocks{1980, 3201};
  return result;
}

TransitionPoint transition_point(int32_t rows, double heads_8, double heads_64) {
  TransitionPoint point;
  point.query_rows = rows;
  point.batch = 1;
  point.s_q = rows;
  point.heads_8 = timing(heads_8);
  point.heads_16 = timing(heads_8);
  point.heads_64 = timing(heads_64);
  return point;
}

DeviceReport report_on(const std::string& card) {
  DeviceReport report;
  report.library = "/kernels/libflashmla-sm_90a.so";
  report.arch = "sm_90a";
  report.variant = "native";
  report.device.name = card;
  report.device.multiprocessors = 132;
  report.replays = 7;
  report.ceilings = {.linear_gbps = 4600, .linear_grid = "x", .empty_us = 0.6, .empty_full_us = 0.7};
  report.shapes.push_back(measured(primary_shape(), 5.0, 2.0));
  ShapeResult failed;
  failed.shape = {.section = 'C', .kind = CacheKind::kDense, .num_heads = 16, .seq_len = 1024};
  failed.error = "refused: no dense decode";
  report.shapes.push_back(failed);
  return report;
}

TEST_CASE("bench table: figures, floor and upstream on the recorded card") {
  const DeviceReport report = report_on("NVIDIA H200");
  const std::string row = table_row(report.shapes.front(), true);
  for (const char* part : {"v4-128+512/h8/sq8/b1 ", " 5.00 ", " 2.0% ", " 4.50 ", " 404 ", " 2.00 ", " 2.50 ", " 3.00 ",
                           " 14.57 ", " 2.91\n"}) {
    CAPTURE(row, part);
    CHECK(contains(row, part));
  }
  CHECK(contains(table_row(report.shapes.back(), true), "not measured: refused: no dense decode\n"));
  CHECK(contains(summary(report), "A: 1 shapes measured, 0 not"));
  CHECK(contains(summary(report), "times faster than upstream: lowest 2.91 (v4-128+512/h8/sq8/b1)"));
  CHECK(contains(summary(report), "us above the plain read, up to 8 query rows: lowest 3.00"));
  CHECK(contains(summary(report), "C: 0 shapes measured, 1 not"));
  CHECK(contains(summary(report), "SM clock behind the shapes: 1980 to 1980 MHz"));
}

TEST_CASE("bench table: on another card upstream's times are shown, ratios to them are not") {
  const DeviceReport report = report_on("NVIDIA B200");
  const std::string row = table_row(report.shapes.front(), false);
  CHECK(contains(row, " 14.57      -\n"));
  CHECK_FALSE(contains(summary(report), "faster than upstream"));
  const auto json = nlohmann::json::parse(to_json(report));
  CHECK(json["upstream"]["same_card"] == false);
  CHECK(json["shapes"][0]["upstream"]["times_faster"].is_null());
  CHECK(json["shapes"][0]["upstream"]["cold_us"] == Approx(14.57).margin(0.05));
}

TEST_CASE("bench JSON: all figures, and null for what was not measured") {
  DeviceReport report = report_on("NVIDIA H200");
  report.transition.push_back(transition_point(1, 4, 8));
  const auto json = nlohmann::json::parse(to_json(report));
  CHECK(json["schema_version"] == kDeviceReportSchemaVersion);
  CHECK(json["complete"] == false);
  CHECK(json["device"]["name"] == "NVIDIA H200");
  CHECK(json["device"]["driver_version"].is_null());
  const auto& shape = json["shapes"][0];
  CHECK(shape["name"] == "v4-128+512/h8/sq8/b1");
  CHECK(shape["cold"]["us"] == 5.0);
  CHECK(shape["cold"]["replays_us"].size() == 3);
  CHECK(shape["plain_read"]["us"] == 2.0);
  CHECK(shape["times_plain_read"] == 2.5);
  CHECK(shape["us_above_plain_read"] == 3.0);
  CHECK(shape["kv_gbps"].get<double>() == Approx(3463 * 584 / 5.0 * 1e-3));
  CHECK(shape["upstream"]["times_faster"].get<double>() == Approx(14.57 / 5).margin(0.01));
  CHECK(shape["clocks_after"]["sm_mhz"] == 1980);
  CHECK(shape["clocks_before"].is_null());
  CHECK(shape["seq_len"].is_null());
  const auto& failed = json["shapes"][1];
  CHECK(failed["error"] == "refused: no dense decode");
  CHECK(failed["cold"].is_null());
  CHECK(failed["times_plain_read"].is_null());
  const auto& transition = json["transition"][0];
  CHECK(transition["gain_8"] == 2.0);
  CHECK(transition["gain_8_over_padded64"].is_null());
  CHECK(transition["upstream_us"].get<double>() == Approx(12.865));
  CHECK(transition["gain_8_over_upstream"].get<double>() == Approx(12.865 / 4));
}

TEST_CASE("bench transition: the table has the gains over the same library, the baseline and upstream") {
  TransitionPoint point = transition_point(1, 4, 8);
  CHECK(table_row(point, false, true) ==
        "         1      1    1      4.00      4.00      8.00     2.00     2.00     12.87     3.22     3.22\n");
  CHECK(contains(table_row(point, false, false), "     12.87        -        -\n"));
  point.padded_8 = timing(10);
  point.padded_16 = timing(12);
  CHECK(contains(table_row(point, true, true), "     10.00     12.00     2.50     3.00     12.87"));
  point.error = "out of memory";
  CHECK(contains(table_row(point, true, true), " not measured: out of memory\n"));
  CHECK(transition_heading(true).size() == table_row(transition_point(1, 4, 8), true, true).size());
}

TEST_CASE("bench plot: a curve a series, labels on both axes, nothing that runs") {
  DeviceReport report = report_on("A & B <card>");
  for (const int32_t rows : transition_rows()) {
    report.transition.push_back(transition_point(rows, 4, 4 + 0.5 * std::log2(rows)));
  }
  const std::string svg = transition_svg(report);
  CHECK(svg.rfind("<svg xmlns=\"http://www.w3.org/2000/svg\"", 0) == 0);
  CHECK(contains(svg, "</svg>\n"));
  CHECK(contains(svg, "A &amp; B &lt;card>"));
  CHECK(contains(svg, ">1024</text>"));
  CHECK(contains(svg, ">query rows (requests x query tokens)</text>"));
  CHECK(contains(svg, "8 heads, over 64 heads of the same library"));
  CHECK_FALSE(contains(svg, "over the build that pads"));  // there was none
  CHECK_FALSE(contains(svg, "<script"));
  CHECK_FALSE(contains(svg, "nan"));
  size_t marks = 0;
  for (size_t at = svg.find("<circle"); at != std::string::npos; at = svg.find("<circle", at + 1)) ++marks;
  CHECK(marks == 2 * transition_rows().size());
}

TEST_CASE("bench plot: no curve without a measured point, and still a drawing") {
  DeviceReport report = report_on("card");
  TransitionPoint failed = transition_point(1, 4, 8);
  failed.error = "out of memory";
  report.transition.push_back(failed);
  const std::string svg = transition_svg(report);
  CHECK_FALSE(contains(svg, "<circle"));
  CHECK_FALSE(contains(svg, "nan"));
  CHECK_FALSE(contains(svg, "inf"));
}

}  // namespace
}  // namespace flashmla::bench
