// The parts of flashmla-bench that need no GPU.
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <vector>

#include "kernels/bench/device_report.h"
#include "kernels/bench/device_shapes.h"
#include "kernels/bench/options.h"
#include "kernels/bench/sampling.h"
#include "kernels/bench/transition_plot.h"
#include "kernels/bench/upstream.h"
#include "orchestrator/exec/process.h"
#include "tests/support/catch.h"
#include "tests/support/test_dir.h"

namespace flashmla::bench {
namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::map<char, int> count_sections(const std::vector<DeviceShape>& shapes) {
  std::map<char, int> counts;
  for (const DeviceShape& shape : shapes) ++counts[shape.section];
  return counts;
}

DeviceShape primary() {
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
  report.shapes.push_back(measured(primary(), 5.0, 2.0));
  ShapeResult failed;
  failed.shape = {.section = 'C', .kind = CacheKind::kDense, .num_heads = 16, .seq_len = 1024};
  failed.error = "refused: no dense decode";
  report.shapes.push_back(failed);
  return report;
}

Options parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "flashmla-bench");
  return parse_options(static_cast<int>(arguments.size()), arguments.data());
}

std::string complaint(const std::vector<const char*>& arguments) {
  const Options options = parse(arguments);
  const auto* bad = std::get_if<BadOptions>(&options);
  return bad == nullptr ? "" : bad->message;
}

TEST_CASE("bench shapes: as many as the tables have rows, the primary point first") {
  const std::vector<DeviceShape> shapes = device_shapes({});
  const auto counts = count_sections(shapes);
  CHECK(counts == std::map<char, int>{{'A', 72}, {'B', 26}, {'F', 42}, {'C', 24}});
  CHECK(shapes.front().name() == "v4-128+512/h8/sq8/b1");
  std::set<std::string> names;
  for (const DeviceShape& shape : shapes) names.insert(shape.name());
  CHECK(names.size() == shapes.size());
}

TEST_CASE("bench shapes: heads of the caller's choice are timed on every row of a section") {
  CHECK(count_sections(device_shapes({.sections = "C", .heads = {16, 64, 128}})) == std::map<char, int>{{'C', 72}});
  CHECK(count_sections(device_shapes({.sections = "A", .heads = {8, 16}})) == std::map<char, int>{{'A', 144}});
  CHECK(count_sections(device_shapes({.sections = "B", .heads = {128}})) == std::map<char, int>{{'B', 22}});
}

TEST_CASE("bench shapes: a whole name is that shape alone, a part of names is all of them") {
  const auto alone = device_shapes({.part_of_name = "v4-128+512/h8/sq8/b1"});
  REQUIRE(alone.size() == 1);
  CHECK(alone.front().batch == 1);
  CHECK(device_shapes({.part_of_name = "v4-128+512/h8/sq8"}).size() == 9);
  CHECK(device_shapes({.part_of_name = "v5"}).empty());
}

TEST_CASE("bench shapes: a quick run has some of each section, and the primary point") {
  const auto quick = device_shapes({.quick = true});
  const auto counts = count_sections(quick);
  for (const char section : {'A', 'B', 'C', 'F'}) CHECK(counts.at(section) >= 5);
  CHECK(quick.size() < 50);
  CHECK(quick.front().name() == "v4-128+512/h8/sq8/b1");
}

TEST_CASE("bench upstream: every shape of the tables has its recorded time, and every recorded time its shape") {
  std::set<const UpstreamTime*> unused;
  for (const UpstreamTime& time : recorded_upstream()) unused.insert(&time);
  CHECK(unused.size() == 72 + 26 + 72 + 42);
  std::vector<DeviceShape> shapes = device_shapes({});
  for (const DeviceShape& shape : device_shapes({.sections = "C", .heads = {16, 64, 128}})) shapes.push_back(shape);
  for (const DeviceShape& shape : shapes) {
    CAPTURE(shape.name());
    const auto time = upstream_time(shape);
    REQUIRE(time.has_value());
    CHECK(time->section == shape.section);
    CHECK(time->read_us.has_value() == !shape.dense());
    for (auto it = unused.begin(); it != unused.end();) {
      const UpstreamTime& one = **it;
      const bool same = one.kind == time->kind && one.heads == time->heads && one.s_q == time->s_q &&
                        one.batch == time->batch && one.extra_topk == time->extra_topk && one.seq_len == time->seq_len;
      it = same ? unused.erase(it) : std::next(it);
    }
  }
  CHECK(unused.empty());
}

TEST_CASE("bench upstream: the primary point is compared with upstream's 64 padded heads") {
  const auto time = upstream_time(primary());
  REQUIRE(time.has_value());
  CHECK(time->heads == 64);
  CHECK(time->cold_us == Approx(14.57).margin(0.05));
  CHECK(time->read_us.value() == Approx(2.24).margin(0.05));
  DeviceShape wider = primary();
  wider.num_heads = 128;  // never timed
  CHECK_FALSE(upstream_time(wider).has_value());
}

TEST_CASE("bench upstream: malformed rows are not read as numbers") {
  CHECK(parse_upstream("# comment\nsection,format\nA,v4,64,1,1,128,512,0,12.8,11.8,1.7\n").size() == 1);
  CHECK(parse_upstream("C,dense,64,1,1,0,0,1024,12.8,11.8,\n").size() == 1);
  for (const char* row : {"A,v4,64,1,1,128,512,0,12.8\n", "A,v4,64,1,1,128,512,0,12.8,x,1\n",
                          "AB,v4,64,1,1,128,512,0,12.8,11,1\n", "A,v4,64,1,1,128,512,0,12.8,11,1,2\n"}) {
    CHECK(parse_upstream(row).empty());
  }
}

TEST_CASE("bench upstream: the embedded times are those of the measured record") {
  if (sweep::test::reference_data().empty()) SWEEP_SKIP("no reference data beside the checkout");
  const auto record =
      nlohmann::json::parse(read(sweep::test::reference_data() / "flashmla_upstream_h200.json"), nullptr, false);
  REQUIRE(record.is_object());
  CHECK(record["meta"]["upstream"]["commit"] == kUpstreamCommit);
  const std::map<std::string, CacheKind> kinds = {
      {"MODEL1", CacheKind::kV4}, {"V32", CacheKind::kV32}, {"dense_bf16", CacheKind::kDense}};
  size_t compared = 0;
  for (const nlohmann::json& row : record["rows"]) {
    const std::string section = row["section"];
    if (section.size() != 1 || std::string("ABCF").find(section) == std::string::npos) continue;
    const DeviceShape shape = {.section = section[0],
                               .kind = kinds.at(row["format"]),
                               .num_heads = row["h_q"],
                               .s_q = row["s_q"],
                               .batch = row["batch"],
                               .main_topk = row.value("topk", 0),
                               .extra_topk = row.value("extra_topk", 0),
                               .seq_len = row.value("seqlen", 0)};
    CAPTURE(shape.name());
    const auto time = upstream_time(shape);
    REQUIRE(time.has_value());
    CHECK(time->section == shape.section);
    CHECK(time->cold_us == Approx(row["us_graph_cold"].get<double>()).margin(0.001));
    CHECK(time->warm_us == Approx(row["us_graph_warm"].get<double>()).margin(0.001));
    if (row.contains("us_gather_only_cold")) {
      CHECK(time->read_us.value() == Approx(row["us_gather_only_cold"].get<double>()).margin(0.001));
    }
    // The same protocol: as many distinct tokens (they are drawn at random) and as many pools.
    Random random(3);
    const Selection selection = select_tokens(shape, random);
    CHECK(static_cast<double>(selection.unique_tokens()) == Approx(row["unique_tokens"].get<double>()).epsilon(0.02));
    CHECK(static_cast<double>(cold_sets(unique_bytes(shape, selection))) ==
          Approx(row["cold_sets"].get<double>()).epsilon(0.03).margin(1));
    ++compared;
  }
  CHECK(compared == recorded_upstream().size());
}

TEST_CASE("bench upstream: only the same model of card is compared") {
  CHECK(is_upstream_card("NVIDIA H200"));
  CHECK_FALSE(is_upstream_card("NVIDIA H200 NVL"));
  CHECK_FALSE(is_upstream_card("NVIDIA H100 80GB HBM3"));
}

TEST_CASE("bench sampling: slots are inside the pool, different within a list, and the window moves with the token") {
  const DeviceShape shape = {.s_q = 4, .batch = 3, .main_topk = 128, .extra_topk = 512};
  Random random(1);
  const Selection selection = select_tokens(shape, random);
  REQUIRE(selection.main.slots.size() == 12 * 128);
  REQUIRE(selection.extra.slots.size() == 12 * 512);
  std::set<int32_t> window, extra;
  for (size_t row = 0; row < 12; ++row) {
    const auto main = selection.main.slots.begin() + static_cast<std::ptrdiff_t>(128 * row);
    const auto more = selection.extra.slots.begin() + static_cast<std::ptrdiff_t>(512 * row);
    CHECK(std::set<int32_t>(main, main + 128).size() == 128);
    CHECK(std::set<int32_t>(more, more + 512).size() == 512);
    if (row % 4 != 0) CHECK(std::equal(main, main + 127, main - 127));
    window.insert(main, main + 128);
    extra.insert(more, more + 512);
  }
  CHECK(static_cast<int64_t>(window.size()) == selection.main.unique_tokens);
  CHECK(static_cast<int64_t>(extra.size()) == selection.extra.unique_tokens);
  CHECK(*window.begin() >= 0);
  CHECK(*window.rbegin() < selection.main.pages * kPageSize);
  CHECK(*extra.rbegin() < selection.extra.pages * kPageSize);
  CHECK(selection.extra.pages == 3 * kCompressedTokens / kPageSize);
}

TEST_CASE("bench sampling: a dense cache reads each of its pages once") {
  Random random(1);
  const DeviceShape shape = {.section = 'C', .kind = CacheKind::kDense, .batch = 3, .seq_len = 1024};
  const Selection selection = select_tokens(shape, random);
  const std::set<int32_t> pages(selection.main.slots.begin(), selection.main.slots.end());
  CHECK(pages.size() == 3 * 16);
  CHECK(*pages.rbegin() == 3 * 16 - 1);
  CHECK(unique_bytes(shape, selection) == 3 * 1024 * 1152);
}

TEST_CASE("bench sampling: pools in turn are longer than a cache, at least two, at most 1500") {
  CHECK(cold_sets(373'760) == 589);
  CHECK(cold_sets(1'000'000'000) == 2);
  CHECK(cold_sets(1) == 1500);
}

TEST_CASE("bench timing: median and spread of the replays") {
  const Timing odd = summarise({3, 1, 2}, 10);
  CHECK(odd.us == 2);
  CHECK(odd.spread == 1);
  CHECK(odd.launches == 10);
  CHECK(odd.replays_us == std::vector<double>{3, 1, 2});
  CHECK(summarise({4, 1, 2, 3}, 1).us == 2.5);
  CHECK(summarise({}, 1).us == 0);
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

TEST_CASE("bench JSON: all figures; what was not measured is null") {
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

TEST_CASE("bench transition: rows from 1 to 1024, at most eight query tokens a request") {
  for (const int32_t rows : transition_rows()) {
    const DeviceShape shape = transition_shape(rows, 16);
    CHECK(shape.rows() == rows);
    CHECK(shape.s_q <= 8);
    CHECK(shape.num_heads == 16);
  }
  CHECK(transition_rows().front() == 1);
  CHECK(transition_rows().back() == 1024);
}

TEST_CASE("bench kernels: the plain read compiles for each architecture, with all that the benchmark looks for in it") {
  const sweep::test::TestDir folder;
  const std::string number = GENERATE(as<std::string>(), "90a", "100a", "103a");
  const std::string cubin = (folder / "plain_read.cubin").string();
  const auto status =
      sweep::exec::run({.argv = {"nvcc", "-cubin", "-std=c++20", "-O3", "-I", FLASHMLA_TEST_SOURCES,
                                 "-gencode=arch=compute_" + number + ",code=sm_" + number, "-Werror", "all-warnings",
                                 "-o", cubin, FLASHMLA_TEST_SOURCES "/kernels/bench/plain_read.cu"},
                        .output = folder / "log"},
                       std::chrono::minutes(2), {});
  if (!status) SWEEP_SKIP("no nvcc in PATH");
  const std::string log = folder.read("log");
  if (contains(log, "nsupported gpu architecture")) SWEEP_SKIP("this nvcc is older than the architecture");
  CAPTURE(log);
  REQUIRE(status->ok());
  const std::string text = read(cubin);
  for (const char* name :
       {"flashmla_plain_read_1", "flashmla_plain_read_2", "flashmla_plain_read_4", "flashmla_plain_read_8",
        "flashmla_plain_read_fold", "flashmla_linear_read", "flashmla_repeat", "flashmla_empty"}) {
    CAPTURE(name);
    CHECK(contains(text, name));
  }
}

TEST_CASE("bench options: --library chooses the GPU, without it the CPU is timed") {
  const Options cpu = parse({"--shape", "verify", "--threads", "2", "--no-reference", "--json", "x.json"});
  REQUIRE(std::holds_alternative<CpuOptions>(cpu));
  CHECK(std::get<CpuOptions>(cpu).threads == 2);
  CHECK_FALSE(std::get<CpuOptions>(cpu).reference);
  const Options device = parse({"--library", "l.so", "--plain-read", "p.cubin", "--section", "A,transition", "--heads",
                                "8,64", "--quick", "--replays", "3"});
  REQUIRE(std::holds_alternative<DeviceOptions>(device));
  const auto& options = std::get<DeviceOptions>(device);
  CHECK(options.filter.sections == "A");
  CHECK(options.filter.heads == std::vector<int32_t>{8, 64});
  CHECK(options.filter.quick);
  CHECK(options.shapes);
  CHECK(options.transition);
  CHECK(options.replays == 3);
  CHECK(std::holds_alternative<HelpOptions>(parse({"--help"})));
}

TEST_CASE("bench options: each mistake is named") {
  CHECK(contains(complaint({"--library", "l.so"}), "--plain-read"));
  CHECK(contains(complaint({"--library", "l.so", "--plain-read", "p", "--section", "A,X"}), "\"A,X\""));
  CHECK(contains(complaint({"--library", "l.so", "--plain-read", "p", "--heads", "8,,16"}), "\"8,,16\""));
  CHECK(contains(complaint({"--library", "l.so", "--plain-read", "p", "--heads", "129"}), "1 to 128"));
  CHECK(contains(complaint({"--library", "l.so", "--plain-read", "p", "--shape", "v5"}), "\"v5\""));
  CHECK(contains(complaint({"--library", "l.so", "--plain-read", "p", "--replays", "0"}), "--replays"));
  CHECK(contains(complaint({"--library", "l.so", "--plain-read"}), "expects a value"));
  CHECK(contains(complaint({"--speed", "1"}), "unknown option \"--speed\""));
  CHECK(contains(complaint({"--shape", "nowhere"}), "\"nowhere\""));
  CHECK(contains(complaint({"--threads", "2000"}), "--threads"));
}

}  // namespace
}  // namespace flashmla::bench
