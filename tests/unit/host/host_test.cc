#include "orchestrator/host/host.h"

#include "orchestrator/base/file.h"
#include "orchestrator/base/temp_dir.h"
#include "tests/support/catch.h"

using namespace sweep;

TEST_CASE("host: what the driver shows is listed in the order of the bus, and nothing is invented") {
  auto root = base::TempDir::create().value();
  const auto put = [&](const std::string& name, const std::string& text) {
    const auto path = root.path() / name;
    REQUIRE(base::make_directories(path.parent_path()).has_value());
    REQUIRE(base::write_file_atomic(path, text).has_value());
  };
  put("proc/driver/nvidia/gpus/0000:9b:00.0/information", "Model: \t\t NVIDIA B200\nIRQ: 1\n");
  put("proc/driver/nvidia/gpus/0000:1b:00.0/information", "Model: \t\t NVIDIA H200\n");
  put("etc/os-release", "NAME=\"X\"\nPRETTY_NAME=\"Some System 1\"\n");
  put("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU\n");
  const host::Host here = host::inspect_host(root.path());
  REQUIRE(here.gpus.size() == 2);
  CHECK(here.gpus[0].name == "NVIDIA H200");
  CHECK(here.gpus[1].name == "NVIDIA B200");
  CHECK(here.gpus[1].index == 1);
  CHECK(here.system == "Some System 1");
  CHECK(here.cpu == "Some CPU");
  CHECK(here.cores > 0);
}

TEST_CASE("host: without a driver there are no GPUs and unknown texts are empty") {
  auto root = base::TempDir::create().value();
  const host::Host here = host::inspect_host(root.path());
  CHECK(here.gpus.empty());
  CHECK(here.cpu.empty());
}

TEST_CASE("host: programs are found in PATH only if they can be executed") {
  CHECK(host::find_program("sh").has_value());
  CHECK_FALSE(host::find_program("no-such-program-here").has_value());
}
