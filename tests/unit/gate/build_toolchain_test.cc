#include "orchestrator/gate/build_toolchain.h"

#include <filesystem>

#include "orchestrator/base/temp_dir.h"
#include "orchestrator/diag/rules/kernels.h"
#include "orchestrator/gate/arch_device.h"
#include "tests/support/catch.h"
#include "tests/support/environment.h"
#include "tests/unit/gate/fake_nvcc.h"

using namespace sweep;
using test::EnvironmentVariable;
using test::FakeNvcc;
namespace fs = std::filesystem;

TEST_CASE("toolchain: the version and build of nvcc are read from what it prints") {
  const auto nvcc = gate::parse_nvcc_version(
      "nvcc: NVIDIA (R) Cuda compiler driver\n"
      "Copyright (c) 2005-2025 NVIDIA Corporation\n"
      "Built on Wed_Aug_20_01:58:59_PM_PDT_2025\n"
      "Cuda compilation tools, release 13.0, V13.0.88\n"
      "Build cuda_13.0.r13.0/compiler.36424714_0\n");
  REQUIRE(nvcc.has_value());
  CHECK(nvcc->version == gate::CudaVersion{13, 0, 88});
  CHECK(nvcc->text == "nvcc 13.0.88 (cuda_13.0.r13.0/compiler.36424714_0)");
}

TEST_CASE("toolchain: what another compiler prints is not a version of nvcc") {
  CHECK_FALSE(gate::parse_nvcc_version("").has_value());
  CHECK_FALSE(gate::parse_nvcc_version("g++ (Debian 12.2.0-14) 12.2.0\n").has_value());
  CHECK_FALSE(gate::parse_nvcc_version("nvcc: NVIDIA (R) Cuda compiler driver\nrelease , V\n").has_value());
  CHECK_FALSE(gate::parse_nvcc_version("clang, V13.0.88\n").has_value());
}

TEST_CASE("toolchain: an nvcc that is too old for the architecture is passed over") {
  const auto folder = base::TempDir::create().value();
  const FakeNvcc old(folder.path() / "a", "12.8", "93");
  const FakeNvcc recent(folder.path() / "b", "12.9", "86");
  const gate::NvccPlaces places{.named = {},
                                .folders = {folder.path() / "none", folder.path() / "a", folder.path() / "b"}};
  CHECK(gate::find_nvcc(gate::Arch::kSm90a, places, {}).value().program == old.path());
  CHECK(gate::find_nvcc(gate::Arch::kSm100a, places, {}).value().program == old.path());
  CHECK(gate::find_nvcc(gate::Arch::kSm103a, places, {}).value().program == recent.path());
}

TEST_CASE("toolchain: without an nvcc that will do, what was found and how to get one is said") {
  const auto folder = base::TempDir::create().value();
  const FakeNvcc old(folder.path(), "11.8", "89");
  const auto too_old = gate::find_nvcc(gate::Arch::kSm100a, {.named = {}, .folders = {folder.path()}}, {});
  REQUIRE_FALSE(too_old.has_value());
  CHECK(too_old.error().rule == diag::rule::kernels_no_nvcc);
  CHECK(contains(too_old.error().message, "nvcc 12.8 or newer"));
  CHECK(contains(too_old.error().message, "\"" + old.path().string() + "\" is 11.8"));
  CHECK(contains(too_old.error().help, "cuda-nvcc-"));
  CHECK(contains(too_old.error().help, "CUDACXX"));
  const auto none = gate::find_nvcc(gate::Arch::kSm100a, {.named = {}, .folders = {folder.path() / "empty"}}, {});
  REQUIRE_FALSE(none.has_value());
  CHECK(contains(none.error().message, "none was found"));
}

TEST_CASE("toolchain: the nvcc that CUDACXX names is taken or refused, never replaced") {
  const auto folder = base::TempDir::create().value();
  const FakeNvcc old(folder.path() / "a", "12.0", "140");
  const FakeNvcc recent(folder.path() / "b", "13.0", "88");
  const EnvironmentVariable path("PATH", (folder.path() / "b").string());
  const EnvironmentVariable named("CUDACXX", old.path().string());
  const gate::NvccPlaces places = gate::nvcc_places();
  CHECK(gate::find_nvcc(gate::Arch::kSm90a, places, {}).value().program == old.path());
  const auto refused = gate::find_nvcc(gate::Arch::kSm103a, places, {});
  REQUIRE_FALSE(refused.has_value());
  CHECK(contains(refused.error().message, "is 12.0"));
}

TEST_CASE("toolchain: PATH is looked through before CUDA_HOME") {
  const auto folder = base::TempDir::create().value();
  const FakeNvcc in_home(folder.path() / "home" / "bin", "13.0", "88");
  const FakeNvcc in_path(folder.path() / "path", "12.9", "86");
  const EnvironmentVariable named("CUDACXX", "");
  const EnvironmentVariable home("CUDA_HOME", (folder.path() / "home").string());
  const auto found = [&](const std::string& path) {
    const EnvironmentVariable variable("PATH", path);
    return gate::find_nvcc(gate::Arch::kSm90a, gate::nvcc_places(), {}).value().program;
  };
  CHECK(found((folder.path() / "path").string() + ":/bin") == in_path.path());
  CHECK(found("/nowhere") == in_home.path());
}

TEST_CASE("toolchain: kernels for the CPU need no device, others an NVIDIA driver") {
  CHECK(gate::check_device(gate::Arch::kCpu).has_value());
  const auto checked = gate::check_device(gate::Arch::kSm90a);
  if (checked) SWEEP_SKIP("this host has an NVIDIA driver");
  CHECK(checked.error().rule == diag::rule::kernels_no_gpu);
  CHECK(contains(checked.error().message, "H200"));
}
