#include "orchestrator/telemetry/capture.h"

#include <fmt/format.h>

#include "orchestrator/base/file.h"
#include "orchestrator/diag/render.h"
#include "tests/support/catch.h"
#include "tests/support/test_dir.h"

using namespace sweep;
using telemetry::Capture;

namespace {

constexpr const char* kHeader = "timestamp, index, uuid, power.draw [W], clocks.current.sm [MHz]\n";

struct Parsed {
  std::optional<Capture> capture;
  std::string findings;
};

Parsed parse(const std::string& text) {
  diag::Diagnostics out;
  Parsed parsed{.capture = telemetry::parse_capture("gpu.csv", text, out), .findings = {}};
  parsed.findings = diag::render_text(out, {});
  return parsed;
}

// The one finding is at this place and says this.
void check_refused(const std::string& text, std::string_view place, std::string_view part) {
  const Parsed parsed = parse(text);
  INFO(parsed.findings);
  CHECK_FALSE(parsed.capture.has_value());
  CHECK(contains(parsed.findings, fmt::format("gpu.csv:{}: error: ", place)));
  CHECK(contains(parsed.findings, part));
}

}  // namespace

TEST_CASE("capture: the CSV of nvidia-smi is read with its units") {
  const Parsed parsed = parse(std::string(kHeader) +
                              "2026/11/03 10:00:00.000, 1, GPU-b, 130.00 W, 1965 MHz\n"
                              "2026/11/03 10:00:00.250, 0, GPU-a, 120.50 W, 1950 MHz\n");
  INFO(parsed.findings);
  REQUIRE(parsed.capture.has_value());
  CHECK(parsed.findings.empty());
  const Capture& capture = *parsed.capture;
  CHECK(capture.clock == telemetry::Clock::kLocal);
  REQUIRE(capture.gpus.size() == 2);
  CHECK(capture.gpus[0].name() == "GPU 0");
  CHECK(capture.gpus[0].uuid == "GPU-a");
  CHECK(capture.gpus[0].samples[0].power_w == 120.5);
  CHECK(capture.gpus[0].samples[0].sm_clock_mhz == 1950.0);
  CHECK(capture.gpus[0].samples[0].line == 3);
  CHECK(capture.gpus[0].samples[0].ns - capture.gpus[1].samples[0].ns == 250'000'000);
}

TEST_CASE("capture: columns come in any order, others are left alone, the power of the moment goes first") {
  const Parsed parsed = parse(
      "power.draw [W], utilization.gpu [%], index, power.draw.instant [W], timestamp, clocks_event_reasons.active, "
      "memory.used [MiB]\n"
      "100.00 W, what, 3, 700.00 W, 2026-11-03T10:00:00+01:00, 0x0000000000000044, 512 MiB\n");
  INFO(parsed.findings);
  REQUIRE(parsed.capture.has_value());
  const telemetry::Sample& sample = parsed.capture->gpus[0].samples[0];
  CHECK(sample.power_w == 700.0);
  CHECK(sample.throttle_reasons == uint64_t{0x44});
  CHECK(sample.memory_used_bytes == int64_t{512} << 20);
  CHECK(parsed.capture->clock == telemetry::Clock::kUnix);
  CHECK(sample.ns == 1'793'696'400'000'000'000);
}

TEST_CASE("capture: DCGM samples are read in Unix time, hosts apart") {
  const Parsed parsed = parse(
      "schema_version,timestamp_unix,scrape_seq,hostname,gpu_index,gpu_uuid,power_w\n"
      "1,1789384980.250,0,node-1,0,GPU-x,480.6\n"
      "1,1789384980.250,0,node-0,0,GPU-y,481\n");
  INFO(parsed.findings);
  REQUIRE(parsed.capture.has_value());
  CHECK(parsed.capture->clock == telemetry::Clock::kUnix);
  REQUIRE(parsed.capture->gpus.size() == 2);
  CHECK(parsed.capture->gpus[0].name() == "GPU 0 of node-0");
  CHECK(parsed.capture->gpus[0].samples[0].ns == 1'789'384'980'250'000'000);
}

TEST_CASE("capture: what the driver does not tell is absent, not zero") {
  const std::string absent = GENERATE("[N/A]", "N/A", "[Not Supported]", "[Unknown Error]", "");
  const Parsed parsed = parse(std::string(kHeader) + "2026/11/03 10:00:00.000, 0, GPU-a, " + absent + ", 1965 MHz\n");
  INFO(parsed.findings);
  REQUIRE(parsed.capture.has_value());
  CHECK_FALSE(parsed.capture->gpus[0].samples[0].power_w.has_value());
}

TEST_CASE("capture: a cell that is not what its column says is reported at its place") {
  const auto row = [](const std::string& time, const std::string& index, const std::string& power) {
    return std::string(kHeader) + "2026/11/03 10:00:00.000, 0, GPU-a, 1.00 W, 1 MHz\n" + time + ", " + index +
           ", GPU-a, " + power + ", 1965 MHz\n";
  };
  const std::string time = "2026/11/03 10:00:01.000";
  check_refused(row("2026/02/30 10:00:00.000", "0", "1.00 W"), "3:1", "\"timestamp\" is \"2026/02/30 10:00:00.000\"");
  check_refused(row("2026/11/03 24:00:00.000", "0", "1.00 W"), "3:1", "expected a time such as");
  check_refused(row("[N/A]", "0", "1.00 W"), "3:1", "expected a time such as");
  check_refused(row("2026-11-03T10:00:01Z", "0", "1.00 W"), "3:1", "expected a time without a zone");
  check_refused(row(time, "zero", "1.00 W"), "3:26", "expected the number of a GPU");
  check_refused(row(time, "-1", "1.00 W"), "3:26", "expected the number of a GPU");
  for (const char* power : {"1.00 mW", "1,00 W", "nan W", "inf", "1e3 W", "0x10", "1.0.0 W", "W"}) {
    const Parsed parsed = parse(row(time, "0", power));
    INFO(power << "\n" << parsed.findings);
    CHECK_FALSE(parsed.capture.has_value());
    CHECK(contains(parsed.findings, "gpu.csv:3:"));
  }
}

TEST_CASE("capture: rows and headers that do not fit are refused") {
  CHECK(contains(parse("").findings, "gpu.csv: error: the file is empty"));
  check_refused(kHeader, "1:1", "there is no sample");
  check_refused(std::string(kHeader) + "a, b\n2026/11/03 10:00:00.000, 0, GPU-a, 1 W, 1 MHz\n", "2:1",
                "2 cells, expected 5");
  check_refused("timestamp, index\n", "1:1", "no column of power");
  check_refused("index, power.draw [W]\n", "1:1", "no column of times");
  check_refused("timestamp, power.draw [W]\n", "1:1", "no column that names the GPU");
  check_refused("timestamp, timestamp, index, power.draw [W]\n", "1:12", "column \"timestamp\" is there twice");
  check_refused("timestamp, timestamp_unix, index, power.draw [W]\n", "1:1", "several columns of times");
  check_refused("timestamp, index, power.draw [mW]\n", "1:19", "is in \"mW\", expected \"W\"");
  check_refused("schema_version,timestamp_unix,gpu_index,power_w\n2,1.5,0,1\n", "2:1", "expected 1");
  check_refused(std::string(kHeader) + kHeader, "2:1", "expected a time such as");
}

TEST_CASE("capture: one number with two UUIDs is two GPUs under one name") {
  check_refused(std::string(kHeader) +
                    "2026/11/03 10:00:00.000, 0, GPU-a, 1 W, 1 MHz\n2026/11/03 10:00:01.000, 0, GPU-b, 1 W, 1 MHz\n",
                "3:1", "GPU 0 has UUID \"GPU-b\" here and \"GPU-a\" above");
}

TEST_CASE("capture: a last line that was cut off is left out with a warning, one in between is not") {
  const std::string row = "2026/11/03 10:00:00.000, 0, GPU-a, 1 W, 1 MHz\n";
  const Parsed cut = parse(kHeader + row + "2026/11/03 10:00:01.0");
  INFO(cut.findings);
  REQUIRE(cut.capture.has_value());
  CHECK(cut.capture->gpus[0].samples.size() == 1);
  CHECK(contains(cut.findings, "gpu.csv:3:1: warning: the last line was cut off after 1 of 5 cells"));
  CHECK(contains(cut.findings, "[power/cut-line]"));
  CHECK_FALSE(parse(kHeader + row + "2026/11/03 10:00:01.0\n").capture.has_value());
}

TEST_CASE("capture: a file of damaged lines gives a bounded number of findings") {
  std::string text = kHeader;
  for (int i = 0; i < 10'000; ++i) text += "x\n";
  diag::Diagnostics out;
  CHECK_FALSE(telemetry::parse_capture("gpu.csv", text, out).has_value());
  CHECK(out.items().size() == 100);
}

TEST_CASE("capture: the recorded samples of engines are read") {
  const auto folder = test::reference_data() / "engines";
  if (!std::filesystem::exists(folder)) SWEEP_SKIP("no reference data");
  const Parsed smi = parse(base::read_file(folder / "gpu_metrics.csv").value());
  INFO(smi.findings);
  REQUIRE(smi.capture.has_value());
  CHECK(smi.capture->gpus.size() == 8);
  int64_t absent = 0;
  for (const telemetry::Gpu& gpu : smi.capture->gpus)
    for (const telemetry::Sample& sample : gpu.samples) absent += sample.power_w ? 0 : 1;
  CHECK(absent == 1);
  const Parsed dcgm = parse(base::read_file(folder / "dcgm_power_samples.csv").value());
  INFO(dcgm.findings);
  REQUIRE(dcgm.capture.has_value());
  CHECK(dcgm.capture->gpus.size() == 8);
}
