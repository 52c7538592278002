// The CUDA libraries of this build, as far as a machine without a GPU can tell.
#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "flashmla/flashmla.h"
#include "tests/kernels/elf_file.h"
#include "tests/support/catch.h"

namespace {

constexpr const char* kNone = "this build has no CUDA libraries: no nvcc, or sanitizers";

struct CudaLibrary {
  std::string arch;
  std::string variant;
  std::string file;
};

// Of the definition FLASHMLA_TEST_CUDA_LIBRARIES: "sm_90a native PATH|" for each.
std::vector<CudaLibrary> cuda_libraries() {
  std::istringstream text(FLASHMLA_TEST_CUDA_LIBRARIES);
  std::vector<CudaLibrary> libraries;
  CudaLibrary next;
  while (text >> next.arch >> next.variant && text.ignore() && std::getline(text, next.file, '|'))
    libraries.push_back(next);
  return libraries;
}

class Loaded {
 public:
  explicit Loaded(const std::string& file) : handle_(::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    INFO((handle_ != nullptr ? "" : ::dlerror()));
    REQUIRE(handle_ != nullptr);
  }
  ~Loaded() { ::dlclose(handle_); }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;

  template <class Function>
  Function* function(const char* name) const {
    auto* found = reinterpret_cast<Function*>(::dlsym(handle_, name));
    REQUIRE(found != nullptr);
    return found;
  }

 private:
  void* handle_;
};

bool has_driver() {
  return std::filesystem::exists("/proc/driver/nvidia/version") || std::filesystem::exists("/dev/nvidiactl") ||
         std::filesystem::exists("/dev/dxg");
}

}  // namespace

TEST_CASE("CUDA libraries: each says what it was built as") {
  const auto libraries = cuda_libraries();
  if (libraries.empty()) SWEEP_SKIP(kNone);
  for (const CudaLibrary& library : libraries) {
    INFO(library.file);
    const Loaded loaded(library.file);
    const flashmla_build& build = *loaded.function<decltype(flashmla_build_info)>("flashmla_build_info")();
    CHECK(build.abi_version == FLASHMLA_ABI_VERSION);
    CHECK(build.arch == library.arch);
    CHECK(build.variant == library.variant);
    CHECK(contains(std::string(build.compiler), "nvcc "));
  }
}

TEST_CASE("CUDA libraries: without a driver a context is refused, and nothing crashes") {
  const auto libraries = cuda_libraries();
  if (libraries.empty()) SWEEP_SKIP(kNone);
  if (has_driver()) SWEEP_SKIP("this host has an NVIDIA driver");
  for (const CudaLibrary& library : libraries) {
    INFO(library.file);
    const Loaded loaded(library.file);
    const auto create = loaded.function<decltype(flashmla_context_create)>("flashmla_context_create");
    int something = 0;
    auto* context = reinterpret_cast<flashmla_context*>(&something);
    CHECK(create(nullptr, &context) == FLASHMLA_DEVICE_ERROR);
    CHECK(context == nullptr);
    CHECK(create(nullptr, nullptr) == FLASHMLA_INVALID_ARGUMENT);
    loaded.function<decltype(flashmla_context_destroy)>("flashmla_context_destroy")(nullptr);
  }
}

TEST_CASE("CUDA libraries: each holds machine code for its own GPU, and nothing for others") {
  const auto libraries = cuda_libraries();
  if (libraries.empty()) SWEEP_SKIP(kNone);
  for (const CudaLibrary& library : libraries) {
    INFO(library.file);
    const auto code = flashmla::test::device_code(library.file);
    CHECK_FALSE(code.empty());
    const uint32_t sm = static_cast<uint32_t>(std::strtoul(library.arch.c_str() + 3, nullptr, 10));
    for (const auto& entry : code) {
      CHECK_FALSE(entry.is_ptx);
      CHECK(entry.sm == sm);
    }
  }
}

// nvcc makes the name of a kernel in an unnamed namespace of the folder of its source, too.
TEST_CASE("CUDA libraries: no kernel's name depends on where the sources are") {
  const auto libraries = cuda_libraries();
  if (libraries.empty()) SWEEP_SKIP(kNone);
  for (const CudaLibrary& library : libraries) {
    INFO(library.file);
    std::ifstream file(library.file, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    CHECK(bytes.find("combine_kernel") != std::string::npos);
    CHECK(bytes.find("_GLOBAL__N_") == std::string::npos);
  }
}

TEST_CASE("CUDA libraries: only the C API is exported, the runtime inside is not") {
  const auto libraries = cuda_libraries();
  if (libraries.empty()) SWEEP_SKIP(kNone);
  for (const CudaLibrary& library : libraries) {
    INFO(library.file);
    const auto names = flashmla::test::exported_names(library.file);
    CHECK(names.size() == 9);
    for (const std::string& name : names) {
      INFO(name);
      CHECK(name.compare(0, 9, "flashmla_") == 0);
    }
  }
}
