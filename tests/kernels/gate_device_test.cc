// The gate's way through a device, on a fake driver; what only a GPU can show is left to one.
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/device/driver.h"
#include "kernels/gate/accelerator.h"
#include "kernels/gate/checks.h"
#include "tests/kernels/gate_process.h"
#include "tests/support/catch.h"

namespace flashmla::gate {
namespace {

const std::string kFakeLibrary = std::string(FLASHMLA_TEST_FAKE_DRIVER) + "/libcuda.so.1";

std::vector<std::string> device_judge(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {
      "--library", FLASHMLA_TEST_DEVICE_LIBRARY, "--baseline", FLASHMLA_TEST_DEVICE_BASELINE, "--report", "REPORT"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// With the fake driver where the gate looks for the real one.
Outcome run_on_fake(const std::vector<std::string>& more, std::vector<std::string> environment = {}) {
  environment.push_back("LD_LIBRARY_PATH=" + std::string(FLASHMLA_TEST_FAKE_DRIVER));
  return run_gate(device_judge(more), environment);
}

TEST_CASE("gate on a device: all of the quick set passes, with graphs and repeats") {
  const Outcome outcome = run_on_fake({"--case-repeat", "2"});
  CAPTURE(outcome.errors);
  REQUIRE(outcome.exit == 0);
  const auto report = nlohmann::json::parse(outcome.report);
  CHECK(report["verdict"] == "pass");
  CHECK(report["build"]["arch"] == "sm_90a");
  CHECK(report["build"]["isa"].is_null());
  CHECK(report["device"]["name"] == "Fake GPU");
  CHECK(report["device"]["compute_capability"] == "9.0");
  CHECK(report["device"]["driver_cuda_version"] == "13.0");
  CHECK(report["tolerance"]["sparse"]["weight_unit"] == 0x1p-11);
  for (const auto& cell : report["cells"]) {
    CAPTURE(cell["name"].get<std::string>());
    if (cell["group"] == "") continue;  // no call of its own
    CHECK(cell["repeats"] == 2);
    CHECK(cell["graph_replays"] == 3);
    CHECK(cell["graph_nodes"] == 1);
  }
}

TEST_CASE("gate on a device: small cases run a hundred times, large ones ten") {
  const Outcome outcome = run_on_fake({"--filter", "v4-drafting"});
  REQUIRE(outcome.exit == 0);
  const auto report = nlohmann::json::parse(outcome.report);
  CHECK(report["cells"][0]["repeats"] == 100);
  CHECK(report["cells"][0]["graph_replays"] == 6);
  Case one;
  one.batch = 2;
  one.num_heads = 128;
  CHECK(repeats_of(one, true) == 100);
  one.s_q = 2;
  CHECK(repeats_of(one, true) == 10);
  CHECK(repeats_of(one, false) == 1);
}

TEST_CASE("gate on a device: each fault is named with its cell and check") {
  struct Expected {
    const char* fault;
    const char* cell;
    const char* message;
  };
  const Expected expected = GENERATE(
      Expected{"allocates", "v4-drafting", "graph: the call cannot be captured: the call fails while it is captured: "},
      Expected{"waits", "v4-drafting",
               "graph: the call cannot be captured: cuStreamEndCapture failed: "
               "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
      Expected{"graph-differs", "v4-drafting", "graph: a replay differs: lse[0, 0, 0] is "},
      Expected{"rarely-differs", "v4-drafting", "repeat: a further run differs: lse[0, 0, 0] is "},
      Expected{"stale-lengths", "v4-uneven-lengths", "graph: a replay on other data differs: "},
      Expected{"device-lost", "v4-drafting",
               "status: the candidate refuses a valid call: the device failed: cuStreamSynchronize failed: "
               "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)"});
  std::vector<std::string> options = {"--filter", expected.cell};
  if (std::string(expected.fault) == "rarely-differs") options.insert(options.end(), {"--case-repeat", "200"});
  const Outcome outcome = run_on_fake(options, {std::string("FLASHMLA_BROKEN=") + expected.fault});
  CAPTURE(expected.fault, outcome.errors);
  CHECK(outcome.exit == 4);
  CHECK(contains(outcome.errors, std::string("cell ") + expected.cell));
  CHECK(contains(outcome.errors, expected.message));
  CHECK(contains(outcome.report, "\"verdict\": \"fail\""));
}

TEST_CASE("gate on a device: a lost device ends the run, and the report says since which cell") {
  const Outcome outcome = run_on_fake({"--filter", "v4-"}, {"FLASHMLA_BROKEN=device-lost"});
  CHECK(outcome.exit == 4);
  const auto report = nlohmann::json::parse(outcome.report);
  CHECK(report["cells"].size() == 1);
  CHECK(report["stopped"] == "the device is lost since cell v4-verify-step; those after it were not run");
  CHECK(contains(outcome.errors, "the device is lost since cell v4-verify-step"));
}

TEST_CASE("gate on a device: what is missing is said, with what to do") {
  SECTION("no driver") {
    if (device::Driver::open().ok()) SWEEP_SKIP("this machine has a CUDA driver");
    const Outcome outcome = run_gate(device_judge({}));
    CHECK(outcome.exit == 3);
    CHECK(contains(outcome.errors, "cannot use GPU 0: no CUDA driver: libcuda.so.1: cannot open"));
    CHECK(contains(outcome.errors, "the library is built for sm_90a: run the gate on a machine that has such a GPU"));
  }
  SECTION("no device") {
    const Outcome outcome = run_on_fake({}, {"FAKE_CUDA_DEVICES=0"});
    CHECK(outcome.exit == 3);
    CHECK(contains(outcome.errors, "the CUDA driver sees no device"));
  }
  SECTION("not that many devices") {
    const Outcome outcome = run_on_fake({"--device", "2"});
    CHECK(outcome.exit == 3);
    CHECK(contains(outcome.errors, "cannot use GPU 2: there is no device 2, the CUDA driver sees 1"));
  }
  SECTION("a device of another kind") {
    const Outcome outcome = run_on_fake({}, {"FAKE_CUDA_CAPABILITY=103"});
    CHECK(outcome.exit == 3);
    CHECK(contains(outcome.errors,
                   "device 0 is \"Fake GPU\" of compute capability 10.3, the library is built for "
                   "sm_90a: choose another with --device"));
  }
}

TEST_CASE("gate on a device: code of an architecture runs where it can") {
  CHECK(runs_on("sm_90a", 9, 0));
  CHECK_FALSE(runs_on("sm_90a", 10, 0));
  CHECK(runs_on("sm_100a", 10, 0));
  CHECK_FALSE(runs_on("sm_100a", 10, 3));
  CHECK(runs_on("sm_103a", 10, 3));
  CHECK(runs_on("sm_80", 8, 9));
  CHECK_FALSE(runs_on("sm_89", 8, 0));
  CHECK_FALSE(runs_on("sm_80b", 8, 0));
  CHECK_FALSE(runs_on("cpu", 9, 0));
}

device::Device fake_device() {
  auto driver = device::Driver::open(kFakeLibrary.c_str());
  REQUIRE(driver.ok());
  auto device = driver->device(0);
  REQUIRE(device.ok());
  return std::move(*device);
}

TEST_CASE("device: a driver that is none is told apart") {
  CHECK(contains(device::Driver::open("libnone.so").message(), "no CUDA driver: libnone.so"));
  CHECK(contains(device::Driver::open("libm.so.6").message(),
                 "the CUDA driver \"libm.so.6\" is too old: it has no function \"cuInit\""));
}

TEST_CASE("device: memory is copied there and back, and filled in part") {
  const device::Device device = fake_device();
  auto buffer = device.allocate(8);
  auto stream = device.create_stream();
  REQUIRE(buffer.ok());
  REQUIRE(stream.ok());
  const std::array<unsigned char, 8> sent = {1, 2, 3, 4, 5, 6, 7, 8};
  std::array<unsigned char, 8> received{};
  REQUIRE(buffer->copy_from(sent.data()).ok());
  REQUIRE(stream->fill(*buffer, 9, 6).ok());
  REQUIRE(stream->copy_to(received.data(), *buffer).ok());
  REQUIRE(stream->synchronize().ok());
  CHECK(received == std::array<unsigned char, 8>{1, 2, 3, 4, 5, 6, 9, 9});
  REQUIRE(buffer->fill(7).ok());
  REQUIRE(buffer->copy_to(received.data()).ok());
  CHECK(received[0] == 7);
  auto none = device.allocate(0);
  REQUIRE(none.ok());
  CHECK(none->as<void>() == nullptr);
  CHECK(none->fill(1).ok());
}

TEST_CASE("device: a graph does what was recorded, as often as it is launched") {
  const device::Device device = fake_device();
  auto buffer = device.allocate(1);
  auto stream = device.create_stream();
  REQUIRE(buffer.ok());
  REQUIRE(stream.ok());
  unsigned char value = 0;
  REQUIRE(buffer->fill(1).ok());
  REQUIRE(stream->begin_capture().ok());
  REQUIRE(stream->fill(*buffer, 2).ok());
  auto graph = stream->end_capture();
  REQUIRE(graph.ok());
  CHECK(graph->nodes() == 1);
  REQUIRE(buffer->copy_to(&value).ok());
  CHECK(value == 1);
  for (int i = 0; i < 2; ++i) {
    REQUIRE(buffer->fill(3).ok());
    REQUIRE(graph->launch(*stream).ok());
    REQUIRE(stream->synchronize().ok());
    REQUIRE(buffer->copy_to(&value).ok());
    CHECK(value == 2);
  }
}

TEST_CASE("device: events, and failures with the driver's name for them") {
  const device::Device device = fake_device();
  auto start = device.create_event();
  auto end = device.create_event();
  auto stream = device.create_stream();
  REQUIRE((start.ok() && end.ok() && stream.ok()));
  CHECK(start->record(*stream).ok());
  CHECK(end->record(*stream).ok());
  CHECK(end->synchronize().ok());
  auto elapsed = end->microseconds_since(*start);
  REQUIRE(elapsed.ok());
  CHECK(*elapsed == 125.0);
  CHECK(device.load_module("/none.cubin").message() ==
        "cuModuleLoad failed: CUDA_ERROR_FILE_NOT_FOUND, \"/none.cubin\"");
  REQUIRE(stream->begin_capture().ok());
  CHECK(contains(device.allocate(1).message(), "cuMemAlloc_v2 failed: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"));
  CHECK(contains(stream->end_capture().message(), "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"));
}

}  // namespace
}  // namespace flashmla::gate
