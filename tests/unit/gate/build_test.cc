#include "orchestrator/gate/build.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "orchestrator/base/file.h"
#include "orchestrator/base/temp_dir.h"
#include "orchestrator/diag/rules/exec.h"
#include "orchestrator/diag/rules/kernels.h"
#include "orchestrator/digest/sha256.h"
#include "orchestrator/gate/build_sources.h"
#include "tests/support/catch.h"
#include "tests/support/environment.h"
#include "tests/unit/gate/fake_nvcc.h"

using namespace sweep;
using test::EnvironmentVariable;
using test::FakeNvcc;
namespace fs = std::filesystem;

namespace {

void put(const fs::path& path, const std::string& text) {
  REQUIRE(base::make_directories(path.parent_path()).has_value());
  REQUIRE(base::write_file_atomic(path, text).has_value());
}

// Sources that compile in a moment into the two libraries a kernel build consists of.
class SmallSources {
 public:
  SmallSources() {
    put(sources() / "CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.22)\n"
        "project(k LANGUAGES CXX)\n"
        "foreach(suffix \"\" \"-padded64\")\n"
        "  add_library(k${suffix} SHARED k.cc)\n"
        "  set_target_properties(k${suffix} PROPERTIES OUTPUT_NAME flashmla-${FLASHMLA_ARCH}${suffix})\n"
        "endforeach()\n");
    put(sources() / "k.cc", "extern \"C\" int answer() { return 42; }\n");
  }
  // Makes what a CUDA build leaves, with a program that only says it is nvcc.
  void add_cuda() {
    put(sources() / "CMakeLists.txt",
        base::read_file(sources() / "CMakeLists.txt").value() +
            "if(NOT FLASHMLA_ARCH STREQUAL cpu)\n"
            "  file(WRITE ${CMAKE_BINARY_DIR}/flashmla-plain-read-${FLASHMLA_ARCH}.cubin "
            "\"${CMAKE_CUDA_COMPILER}\")\n"
            "  file(WRITE ${CMAKE_BINARY_DIR}/flashmla-${FLASHMLA_ARCH}-resources.json {})\n"
            "endif()\n");
  }
  diag::Result<gate::KernelBuild> build_for(gate::Arch arch) {
    return gate::build_kernels(
        {.arch = arch, .sources = sources(), .cache = cache()}, [](std::string_view) {}, {}, diagnostics);
  }
  fs::path folder() const { return folder_.path(); }
  fs::path sources() const { return folder_.path() / "kernels"; }
  fs::path cache() const { return folder_.path() / "cache"; }

  diag::Result<gate::KernelBuild> build() { return build_for(gate::Arch::kCpu); }

  diag::Diagnostics diagnostics;

 private:
  base::TempDir folder_ = base::TempDir::create().value();
};

}  // namespace

TEST_CASE("gate: kernels are compiled once and found by content afterwards") {
  SmallSources small;
  const auto first = small.build().value();
  CHECK_FALSE(first.found);
  CHECK(digest::sha256_file(first.library).value() == first.library_sha256);
  CHECK(digest::sha256_file(first.baseline).value() == first.baseline_sha256);
  const auto second = small.build().value();
  CHECK(second.found);
  CHECK(second.content_id == first.content_id);
  CHECK(second.library_sha256 == first.library_sha256);
  CHECK(small.diagnostics.empty());
}

TEST_CASE("gate: changed sources are another build, changed prose is not") {
  SmallSources small;
  const auto first = small.build().value();
  put(small.sources() / "README.md", "words\n");
  put(small.sources() / "gate" / "gate.cc", "not part of the extension\n");
  CHECK(small.build().value().content_id == first.content_id);
  put(small.sources() / "k.cc", "extern \"C\" int answer() { return 43; }\n");
  const auto second = small.build().value();
  CHECK_FALSE(second.found);
  CHECK(second.content_id != first.content_id);
}

TEST_CASE("gate: a source changes the builds it goes into, and no other") {
  SmallSources small;
  const auto digest = [&](gate::Arch arch) { return gate::source_digest(arch, small.sources()).value(); };
  const std::string cpu = digest(gate::Arch::kCpu);
  const std::string cuda = digest(gate::Arch::kSm90a);
  const auto touch = [&](const char* name) { put(small.sources() / name, "text\n"); };
  for (const char* name : {"cuda/decode.cu", "cmake/cuda.cmake", "bench/plain_read.cu"}) touch(name);
  CHECK(digest(gate::Arch::kCpu) == cpu);
  const std::string with_cuda = digest(gate::Arch::kSm90a);
  CHECK(with_cuda != cuda);
  for (const char* name : {"cpu/decode.cc", "bench/main.cc", "gate/main.cc", "device/driver.cc", "oracle/oracle.cc"})
    touch(name);
  CHECK(digest(gate::Arch::kSm90a) == with_cuda);
  const std::string with_cpu = digest(gate::Arch::kCpu);
  CHECK(with_cpu != cpu);
  touch("api/check.cc");
  CHECK(digest(gate::Arch::kCpu) != with_cpu);
  CHECK(digest(gate::Arch::kSm90a) != with_cuda);
}

TEST_CASE("gate: a CUDA build has the benchmark's kernel and the table of resources beside the libraries") {
  SmallSources small;
  small.add_cuda();
  const FakeNvcc nvcc(small.folder(), "13.0", "88");
  const EnvironmentVariable named("CUDACXX", nvcc.path().string());
  const auto first = small.build_for(gate::Arch::kSm100a).value();
  CHECK_FALSE(first.found);
  CHECK(first.device_compiler == "nvcc 13.0.88 (cuda_13.0.r13.0/compiler.1_0)");
  CHECK(base::read_file(first.plain_read).value() == nvcc.path().string());
  CHECK(digest::sha256_file(first.resources).value() == first.resources_sha256);
  CHECK(gate::to_json(first)["hardware"] == "compiled, not run on hardware");
  CHECK(small.build_for(gate::Arch::kSm100a).value().found);
  CHECK(small.build_for(gate::Arch::kSm103a).value().content_id != first.content_id);

  put(first.plain_read, "something else");
  CHECK_FALSE(small.build_for(gate::Arch::kSm100a).value().found);
  REQUIRE(small.diagnostics.items().size() == 1);
  CHECK(small.diagnostics.items()[0].rule == diag::rule::kernels_artifact_changed);
}

TEST_CASE("gate: another version of nvcc makes another build") {
  SmallSources small;
  small.add_cuda();
  const auto id_with = [&small](const char* patch) {
    const FakeNvcc nvcc(small.folder(), "13.0", patch);
    const EnvironmentVariable named("CUDACXX", nvcc.path().string());
    return small.build_for(gate::Arch::kSm90a).value().content_id;
  };
  CHECK(id_with("88") != id_with("89"));
}

TEST_CASE("gate: kernels that spill registers are named") {
  SmallSources small;
  put(small.sources() / "CMakeLists.txt",
      "cmake_minimum_required(VERSION 3.22)\n"
      "project(k LANGUAGES CXX)\n"
      "message(FATAL_ERROR \"registers were spilled:\\n  k<1>(): 8 bytes of spill stores, 4 of spill loads\")\n");
  const auto built = small.build();
  REQUIRE_FALSE(built.has_value());
  REQUIRE(built.error().notes.size() == 1);
  CHECK(built.error().notes[0].message == "k<1>(): 8 bytes of spill stores, 4 of spill loads");
}

TEST_CASE("gate: a library that was changed on disk is reported and built again") {
  SmallSources small;
  const auto first = small.build().value();
  const std::string good = base::read_file(first.library).value();
  put(first.library, good + "x");
  const auto second = small.build().value();
  CHECK_FALSE(second.found);
  CHECK(digest::sha256_file(second.library).value() == second.library_sha256);
  REQUIRE(small.diagnostics.items().size() == 1);
  CHECK(small.diagnostics.items()[0].rule == diag::rule::kernels_artifact_changed);
  CHECK(contains(small.diagnostics.items()[0].message, first.library_sha256));
}

TEST_CASE("gate: sources that do not compile leave no build behind and name the log") {
  SmallSources small;
  put(small.sources() / "k.cc", "this is not C++\n");
  const auto built = small.build();
  REQUIRE_FALSE(built.has_value());
  CHECK(built.error().rule == diag::rule::kernels_build_failed);
  const fs::path log = built.error().help.substr(std::string("read ").size());
  CHECK(contains(base::read_file(log).value(), "error"));
  for (const auto& item : fs::directory_iterator(small.cache() / "kernels")) CHECK_FALSE(item.is_directory());
}

TEST_CASE("gate: a folder without sources is not a build") {
  SmallSources small;
  fs::remove(small.sources() / "CMakeLists.txt");
  const auto built = small.build();
  REQUIRE_FALSE(built.has_value());
  CHECK(built.error().rule == diag::rule::kernels_sources_missing);
}

TEST_CASE("gate: two builders at once make one build") {
  SmallSources small;
  std::vector<gate::KernelBuild> builds(2);
  {
    std::vector<std::jthread> threads;
    for (gate::KernelBuild& build : builds)
      threads.emplace_back([&build, &small] {
        diag::Diagnostics own;
        build = gate::build_kernels(
                    {.arch = gate::Arch::kCpu, .sources = small.sources(), .cache = small.cache()},
                    [](std::string_view) {}, {}, own)
                    .value();
      });
  }
  CHECK(builds[0].found != builds[1].found);
  CHECK(builds[0].library_sha256 == builds[1].library_sha256);
}

TEST_CASE("gate: what a killed builder left behind is removed by the next one") {
  SmallSources small;
  put(small.cache() / "kernels" / "sweepctl-abc123" / "make" / "half", "x");
  REQUIRE(small.build().has_value());
  CHECK_FALSE(fs::exists(small.cache() / "kernels" / "sweepctl-abc123"));
}

TEST_CASE("gate: waiting for another builder can be interrupted") {
  SmallSources small;
  REQUIRE(small.build().has_value());
  const int holder = ::open((small.cache() / "kernels" / ".lock").c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(::flock(holder, LOCK_EX) == 0);
  std::stop_source source;
  bool told = false;
  const auto built = gate::build_kernels(
      {.arch = gate::Arch::kCpu, .sources = small.sources(), .cache = small.cache()},
      [&](std::string_view text) {
        told = contains(text, "waiting");
        source.request_stop();
      },
      source.get_token(), small.diagnostics);
  ::close(holder);
  CHECK(told);
  REQUIRE_FALSE(built.has_value());
  CHECK(built.error().rule == diag::rule::exec_interrupted);
}

TEST_CASE("gate: a build says which hardware has seen it") {
  SmallSources small;
  const auto document = gate::to_json(small.build().value());
  CHECK(document["hardware"] == "measured on x86-64");
  CHECK(document["plain_read"].is_null());
  CHECK(document["device_compiler"].is_null());
  CHECK(gate::arch_info(gate::Arch::kSm90a).hardware == "measured on H200");
  CHECK(gate::arch_info(gate::Arch::kSm103a).hardware == "compiled, not run on hardware");
}

TEST_CASE("gate: compiler flags of the environment make another build") {
  SmallSources small;
  const auto first = small.build().value();
  const EnvironmentVariable flags("CXXFLAGS", "-DSOMETHING");
  CHECK(small.build().value().content_id != first.content_id);
}
