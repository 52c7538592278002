#include "orchestrator/engine/embedded/cuda/plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <utility>

#include "orchestrator/diag/rules/embedded.h"

namespace sweep::engine::embedded::cuda {

namespace {

constexpr const char* kLibrary = "libsweepctl-embedded-cuda.so";

class CheckpointTensors final : public TensorSource {
 public:
  explicit CheckpointTensors(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}
  TensorBytes tensor(const std::string& name) const override {
    const Tensor& tensor = checkpoint_.tensor(name);
    return {tensor.bytes.data(), tensor.spec.dtype == Dtype::kBf16};
  }

 private:
  const Checkpoint& checkpoint_;
};

std::string beside_this_program() {
  std::error_code error;
  return (std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / kLibrary).string();
}

struct Library {
  MakeDeviceModel make = nullptr;
};

diag::Result<Library> load(const std::string& path) {
  if (const std::string reason = SWEEPCTL_EMBEDDED_NO_CUDA; !reason.empty()) {
    return diag::fail(diag::rule::embedded_no_cuda, fmt::format("this build has no CUDA engine: {}", reason),
                      "build again where it is installed, or ask for --device cpu");
  }
  // Never unloaded: CUDA and NCCL keep threads and handlers of their own.
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const reason = ::dlerror();
    return diag::fail(diag::rule::embedded_no_cuda,
                      fmt::format("cannot load the CUDA engine: {}", reason != nullptr ? reason : "unknown reason"));
  }
  void* const symbol = ::dlsym(library, kMakeDeviceModel);
  if (symbol == nullptr) {
    return diag::fail(diag::rule::embedded_no_cuda,
                      fmt::format("\"{}\" is not this program's: it has no function \"{}\"", path, kMakeDeviceModel));
  }
  Library loaded;
  // dlsym yields an object pointer; POSIX guarantees that its bytes are those of the function pointer.
  static_assert(sizeof symbol == sizeof loaded.make);
  std::memcpy(&loaded.make, &symbol, sizeof symbol);
  return loaded;
}

}  // namespace

diag::Result<std::unique_ptr<DeviceModel>> make_device_model(const std::string& path, const Checkpoint& checkpoint,
                                                             DeviceModelOptions options) {
  auto loaded = load(path.empty() ? beside_this_program() : path);
  if (!loaded) return diag::fail(loaded.error());
  const CheckpointTensors tensors(checkpoint);
  options.config = &checkpoint.config;
  options.tensors = &tensors;
  std::string problem;
  std::unique_ptr<DeviceModel> model(loaded->make(options, problem));
  if (!model) {
    return diag::fail(diag::rule::embedded_device, fmt::format("the model cannot be put on the GPU: {}", problem));
  }
  return model;
}

}  // namespace sweep::engine::embedded::cuda
