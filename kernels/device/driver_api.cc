#include "kernels/device/driver_api.h"

#include <dlfcn.h>

namespace flashmla::device {
namespace {

class Symbols {
 public:
  explicit Symbols(void* library) : library_(library) {}

  template <typename Function>
  void find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    if (function == nullptr && missing_.empty()) missing_ = name;
  }

  template <typename Function>
  void find(const char* newer, const char* older, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library_, newer));
    if (function == nullptr) find(older, function);
  }

  const std::string& missing() const { return missing_; }

 private:
  void* library_;
  std::string missing_;
};

void find_devices(Symbols& symbols, DriverApi& api) {
  symbols.find("cuInit", api.cuInit);
  symbols.find("cuDriverGetVersion", api.cuDriverGetVersion);
  symbols.find("cuGetErrorName", api.cuGetErrorName);
  symbols.find("cuGetErrorString", api.cuGetErrorString);
  symbols.find("cuDeviceGetCount", api.cuDeviceGetCount);
  symbols.find("cuDeviceGet", api.cuDeviceGet);
  symbols.find("cuDeviceGetName", api.cuDeviceGetName);
  symbols.find("cuDeviceGetAttribute", api.cuDeviceGetAttribute);
  symbols.find("cuDeviceGetPCIBusId", api.cuDeviceGetPCIBusId);
  symbols.find("cuDeviceTotalMem_v2", api.cuDeviceTotalMem_v2);
  symbols.find("cuDevicePrimaryCtxRetain", api.cuDevicePrimaryCtxRetain);
  symbols.find("cuDevicePrimaryCtxRelease_v2", api.cuDevicePrimaryCtxRelease_v2);
  symbols.find("cuCtxSetCurrent", api.cuCtxSetCurrent);
}

void find_memory(Symbols& symbols, DriverApi& api) {
  symbols.find("cuMemAlloc_v2", api.cuMemAlloc_v2);
  symbols.find("cuMemFree_v2", api.cuMemFree_v2);
  symbols.find("cuMemcpyHtoD_v2", api.cuMemcpyHtoD_v2);
  symbols.find("cuMemcpyDtoH_v2", api.cuMemcpyDtoH_v2);
  symbols.find("cuMemcpyDtoHAsync_v2", api.cuMemcpyDtoHAsync_v2);
  symbols.find("cuMemsetD8_v2", api.cuMemsetD8_v2);
  symbols.find("cuMemsetD8Async", api.cuMemsetD8Async);
}

void find_streams(Symbols& symbols, DriverApi& api) {
  symbols.find("cuStreamCreate", api.cuStreamCreate);
  symbols.find("cuStreamDestroy_v2", api.cuStreamDestroy_v2);
  symbols.find("cuStreamSynchronize", api.cuStreamSynchronize);
  symbols.find("cuStreamBeginCapture_v2", api.cuStreamBeginCapture_v2);
  symbols.find("cuStreamEndCapture", api.cuStreamEndCapture);
  symbols.find("cuGraphGetNodes", api.cuGraphGetNodes);
  symbols.find("cuGraphInstantiateWithFlags", api.cuGraphInstantiateWithFlags);
  symbols.find("cuGraphLaunch", api.cuGraphLaunch);
  symbols.find("cuGraphExecDestroy", api.cuGraphExecDestroy);
  symbols.find("cuGraphDestroy", api.cuGraphDestroy);
  symbols.find("cuEventCreate", api.cuEventCreate);
  symbols.find("cuEventRecord", api.cuEventRecord);
  symbols.find("cuEventSynchronize", api.cuEventSynchronize);
  symbols.find("cuEventElapsedTime_v2", "cuEventElapsedTime", api.cuEventElapsedTime);
  symbols.find("cuEventDestroy_v2", api.cuEventDestroy_v2);
}

void find_kernels(Symbols& symbols, DriverApi& api) {
  symbols.find("cuModuleLoad", api.cuModuleLoad);
  symbols.find("cuModuleGetFunction", api.cuModuleGetFunction);
  symbols.find("cuModuleUnload", api.cuModuleUnload);
  symbols.find("cuFuncSetAttribute", api.cuFuncSetAttribute);
  symbols.find("cuLaunchKernel", api.cuLaunchKernel);
}

}  // namespace

Status DriverApi::check(int code, const char* function) const {
  if (code == 0) return {};
  const char* name = nullptr;
  const char* text = nullptr;
  std::string message = std::string(function) + " failed: ";
  if (cuGetErrorName(code, &name) != 0 || name == nullptr) return Status::failure(message + std::to_string(code));
  message += name;
  if (cuGetErrorString(code, &text) == 0 && text != nullptr) message += std::string(" (") + text + ")";
  return Status::failure(std::move(message));
}

Result<DriverApi> load_driver_api(const char* library) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return Status::failure(std::string("no CUDA driver: ") + dlerror());
  DriverApi api{};
  Symbols symbols(handle);
  find_devices(symbols, api);
  find_memory(symbols, api);
  find_streams(symbols, api);
  find_kernels(symbols, api);
  if (!symbols.missing().empty()) {
    return Status::failure(std::string("the CUDA driver \"") + library + "\" is too old: it has no function \"" +
                           symbols.missing() + "\"");
  }
  return api;
}

}  // namespace flashmla::device
