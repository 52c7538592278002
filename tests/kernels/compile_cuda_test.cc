// The script around nvcc, with a program in its place that prints what ptxas reports.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/base/file.h"
#include "orchestrator/base/temp_dir.h"
#include "orchestrator/exec/process.h"
#include "tests/support/catch.h"

using namespace sweep;
namespace fs = std::filesystem;

namespace {

constexpr const char* kTwoKernels =
    "ptxas info    : 0 bytes gmem\n"
    "ptxas info    : Compiling entry function '_Z2k2Pf' for 'sm_90a'\n"
    "ptxas info    : Function properties for _Z2k2Pf\n"
    "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    "ptxas info    : Used 8 registers, used 0 barriers, 368 bytes cmem[0]\n"
    "ptxas info    : Compile time = 2.254 ms\n"
    "ptxas info    : Compiling entry function '_Z1kILi4EEvPf' for 'sm_90a'\n"
    "ptxas info    : Function properties for _Z1kILi4EEvPf\n"
    "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    "ptxas info    : Used 168 registers, used 1 barriers, 1024 bytes smem\n";

class Compilation {
 public:
  // `script` is what the program in nvcc's place does; $1 is the object.
  int run(const std::string& script) {
    const fs::path nvcc = folder_.path() / "nvcc";
    REQUIRE(base::write_file_atomic(nvcc, "#!/bin/sh\n: > \"$1\"\n" + script + "\n").has_value());
    fs::permissions(nvcc, fs::perms::owner_all);
    return cmake({"-DOBJECT=" + object().string(), "-DRESOURCES=" + resources().string(), "-P",
                  std::string(FLASHMLA_TEST_CMAKE) + "/compile_cuda.cmake", "--", nvcc.string(), object().string()});
  }
  int report(const std::string& text) { return run("cat >&2 <<'END'\n" + text + "END"); }
  nlohmann::json merged() {
    const fs::path table = folder_.path() / "table.json";
    REQUIRE(cmake({"-DARCH=sm_90a", "-DOUTPUT=" + table.string(), "-P",
                   std::string(FLASHMLA_TEST_CMAKE) + "/merge_resources.cmake", "--", resources().string(),
                   resources().string()}) == 0);
    return nlohmann::json::parse(base::read_file(table).value());
  }
  fs::path object() const { return folder_.path() / "kernel.o"; }
  fs::path resources() const { return folder_.path() / "kernel.resources"; }
  const std::string& output() const { return output_; }

 private:
  int cmake(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "cmake");
    const fs::path log = folder_.path() / "log";
    fs::remove(log);
    const auto status = exec::run({.argv = std::move(arguments), .output = log}, std::chrono::seconds(60), {}).value();
    output_ = base::read_file(log).value();
    return status.code;
  }

  base::TempDir folder_ = base::TempDir::create().value();
  std::string output_;
};

}  // namespace

TEST_CASE("compiling CUDA: the figures of each kernel are recorded, and nothing is said") {
  Compilation compilation;
  REQUIRE(compilation.report(kTwoKernels) == 0);
  CHECK(compilation.output().empty());
  CHECK(fs::exists(compilation.object()));
  const auto table = compilation.merged();
  CHECK(table["arch"] == "sm_90a");
  REQUIRE(table["kernels"].size() == 4);  // the same file twice
  CHECK(table["kernels"][0]["kernel"] == "_Z2k2Pf");
  CHECK(table["kernels"][0]["registers"] == 8);
  CHECK(table["kernels"][0]["stack_bytes"] == 0);
  CHECK(table["kernels"][0]["static_shared_bytes"] == 0);
  CHECK(table["kernels"][1]["registers"] == 168);
  CHECK(table["kernels"][1]["static_shared_bytes"] == 1024);
  CHECK(table["kernels"][1]["stack_bytes"] == 0);
}

TEST_CASE("compiling CUDA: a spill in a kernel or in what it calls is an error and leaves no object") {
  const auto [stores, loads] = GENERATE(std::pair("4", "8"), std::pair("4", "0"), std::pair("0", "8"));
  const bool in_function = GENERATE(false, true);
  Compilation compilation;
  std::string text = kTwoKernels;
  if (!in_function) text += "ptxas info    : Compiling entry function '_Z3bad' for 'sm_90a'\n";
  text += std::string("ptxas info    : Function properties for _Z3bad\n    0 bytes stack frame, ") + stores +
          " bytes spill stores, " + loads + " bytes spill loads\n";
  CHECK(compilation.report(text) != 0);
  CHECK(contains(compilation.output(),
                 std::string("_Z3bad: ") + stores + " bytes of spill stores, " + loads + " of spill loads"));
  CHECK_FALSE(contains(compilation.output(), "_Z2k2Pf"));
  CHECK_FALSE(fs::exists(compilation.object()));
}

TEST_CASE("compiling CUDA: variables in local memory are an error, too") {
  Compilation compilation;
  CHECK(compilation.report(std::string(kTwoKernels) +
                           "ptxas info    : Function properties for _Z3bad\n"
                           "    16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n") != 0);
  CHECK(contains(compilation.output(), "_Z3bad: 16 bytes of local memory for variables"));
  CHECK_FALSE(fs::exists(compilation.object()));
}

TEST_CASE("compiling CUDA: warnings and remarks are passed on as they are") {
  Compilation compilation;
  const std::string warning = "a.cu(3): warning #177-D: variable \"a[1;2]\" was declared but never referenced";
  const std::string remark = "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async is serialized";
  REQUIRE(compilation.report(warning + "\n" + kTwoKernels + remark + "\n") == 0);
  CHECK(contains(compilation.output(), warning));
  CHECK(contains(compilation.output(), remark));
  CHECK_FALSE(contains(compilation.output(), "registers"));
}

TEST_CASE("compiling CUDA: a failure of nvcc is one, with what it said, and leaves no object") {
  Compilation compilation;
  CHECK(compilation.run("echo 'a.cu(3): error: no such thing' >&2; exit 2") != 0);
  CHECK(contains(compilation.output(), "error: no such thing"));
  CHECK(contains(compilation.output(), "nvcc ended with 2"));
  CHECK_FALSE(fs::exists(compilation.object()));
}

TEST_CASE("configuring CUDA: an architecture or an nvcc that will not do is refused with what was found") {
  const base::TempDir folder = base::TempDir::create().value();
  const auto refusal = [&](const std::string& arch, const std::string& nvcc) {
    const fs::path log = folder.path() / "log";
    fs::remove(log);
    fs::remove_all(folder.path() / "build");
    const auto status = exec::run({.argv = {"cmake", "-S", std::string(FLASHMLA_TEST_CMAKE) + "/..", "-B",
                                            (folder.path() / "build").string(), "-DFLASHMLA_ARCH=" + arch,
                                            "-DCMAKE_CUDA_COMPILER=" + nvcc},
                                   .output = log},
                                  std::chrono::seconds(60), {})
                            .value();
    CHECK(status.code != 0);
    std::string text = base::read_file(log).value();
    // CMake folds its messages.
    std::replace(text.begin(), text.end(), '\n', ' ');
    const auto both_spaces = [](char a, char b) { return a == ' ' && b == ' '; };
    text.erase(std::unique(text.begin(), text.end(), both_spaces), text.end());
    return text;
  };
  CHECK(contains(refusal("sm_80", ""), "this source builds: cpu, sm_90a, sm_100a, sm_103a"));
  const std::string absent = refusal("sm_100a", "/nowhere/nvcc");
  CHECK(contains(absent, "need nvcc 12.8 or newer"));
  CHECK(contains(absent, "\"/nowhere/nvcc\" is not there"));
  CHECK(contains(refusal("sm_103a", "/bin/true"), "need nvcc 12.9 or newer"));
}
