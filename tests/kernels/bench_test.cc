// The parts of flashmla-bench that need no GPU, but its report.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <vector>

#include "kernels/bench/device_shapes.h"
#include "kernels/bench/options.h"
#include "kernels/bench/sampling.h"
#include "kernels/bench/timing.h"
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
  // Heads that the section does not have by default.
  const auto other_heads = device_shapes({.part_of_name = "v32-2048/h16/sq4/b32"});
  REQUIRE(other_heads.size() == 1);
  CHECK(other_heads[0].num_heads == 16);
  CHECK(device_shapes({.part_of_name = "v32-2048/h", .heads = {64}}).size() == 22);
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
