// A CUDA driver for machines without one, as far as the gate and the benchmark call it: device memory is host memory,
// work on a stream is done at once, a capture records it; between two events lies 0.125 ms, whatever is there.
// FAKE_CUDA_DEVICES (default 1), FAKE_CUDA_CAPABILITY (default 90) and FAKE_CUDA_NAME say what it drives.
#include "tests/kernels/fake_driver.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/kernels/fake_kernels.h"

namespace {

enum Error {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kFileNotFound = 301,
  kIllegalAddress = 700,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901
};

using Work = std::function<void()>;

constexpr size_t kLarge = size_t{64} << 20;  // such memory is reserved, not touched

struct Stream {
  bool capturing = false;
  bool invalidated = false;
  std::vector<Work> recorded;
};

struct Graph {
  std::vector<Work> work;
};

struct Driver {
  std::map<uintptr_t, size_t> memory;  // first address and size of each allocation
  std::vector<Stream*> streams;
  std::map<std::string, std::string> names;  // of functions; the values' addresses are the handles
  bool lost = false;
};

Driver& driver() {
  static Driver one;
  return one;
}

int number_from(const char* variable, int otherwise) {
  const char* value = std::getenv(variable);
  return value != nullptr ? std::atoi(value) : otherwise;
}

bool is_inside(uint64_t address, size_t bytes) {
  const auto& memory = driver().memory;
  auto next = memory.upper_bound(static_cast<uintptr_t>(address));
  if (next == memory.begin()) return false;
  --next;
  return address + bytes <= next->first + next->second;
}

void* at(uint64_t address) {
  return reinterpret_cast<void*>(
      static_cast<uintptr_t>(address));  // NOLINT(performance-no-int-to-ptr): a device address
}

// What may not be called while any stream captures: it fails and spoils the capture.
int forbidden_in_capture() {
  int error = kSuccess;
  for (Stream* stream : driver().streams) {
    if (!stream->capturing) continue;
    stream->invalidated = true;
    error = kCaptureUnsupported;
  }
  return error;
}

int submit(Stream* stream, Work work) {
  if (stream != nullptr && stream->capturing) {
    stream->recorded.push_back(std::move(work));
  } else {
    work();
  }
  return kSuccess;
}

const char* name_of(int error) {
  switch (error) {
    case kInvalidValue:
      return "CUDA_ERROR_INVALID_VALUE";
    case kFileNotFound:
      return "CUDA_ERROR_FILE_NOT_FOUND";
    case kIllegalAddress:
      return "CUDA_ERROR_ILLEGAL_ADDRESS";
    case kCaptureUnsupported:
      return "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED";
    case kCaptureInvalidated:
      return "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED";
    default:
      return nullptr;
  }
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the driver's own names
extern "C" {

int fake_is_device_memory(const void* pointer) {
  return is_inside(reinterpret_cast<uintptr_t>(pointer), 1) ? 1 : 0;
}

void fake_lose_device() {
  driver().lost = true;
}

int cuInit(unsigned) {
  return kSuccess;
}

int cuDriverGetVersion(int* version) {
  *version = 13000;
  return kSuccess;
}

int cuGetErrorName(int error, const char** name) {
  *name = name_of(error);
  return *name != nullptr ? kSuccess : kInvalidValue;
}

int cuGetErrorString(int error, const char** text) {
  *text = error == kIllegalAddress ? "an illegal memory access was encountered" : nullptr;
  return *text != nullptr ? kSuccess : kInvalidValue;
}

int cuDeviceGetCount(int* count) {
  *count = number_from("FAKE_CUDA_DEVICES", 1);
  return kSuccess;
}

int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return kSuccess;
}

int cuDeviceGetName(char* name, int length, int) {
  const char* wanted = std::getenv("FAKE_CUDA_NAME");
  std::snprintf(name, static_cast<size_t>(length), "%s", wanted != nullptr ? wanted : "Fake GPU");
  return kSuccess;
}

int cuDeviceGetPCIBusId(char* id, int length, int) {
  std::snprintf(id, static_cast<size_t>(length), "0000:01:00.0");
  return kSuccess;
}

int cuDeviceGetAttribute(int* value, int attribute, int) {
  constexpr int kMultiprocessors = 16, kMajor = 75, kMinor = 76;
  const int capability = number_from("FAKE_CUDA_CAPABILITY", 90);
  *value = attribute == kMultiprocessors ? 132
           : attribute == kMajor         ? capability / 10
           : attribute == kMinor         ? capability % 10
                                         : 1;
  return kSuccess;
}

int cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = size_t{140} << 30;
  return kSuccess;
}

int cuDevicePrimaryCtxRetain(void** context, int) {
  static int one;
  *context = &one;
  return kSuccess;
}

int cuDevicePrimaryCtxRelease_v2(int) {
  return kSuccess;
}

int cuCtxSetCurrent(void*) {
  return kSuccess;
}

int cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  if (const int error = forbidden_in_capture()) return error;
  if (bytes == 0) return kInvalidValue;
  void* memory = nullptr;
  if (bytes >= kLarge) {
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return kOutOfMemory;
  } else {
    // Aligned as the real driver does it, and of exactly this size, so that sanitizers see the bounds.
    if (posix_memalign(&memory, 256, bytes) != 0) return kOutOfMemory;
    std::memset(memory, 0x5a, bytes);
  }
  *address = reinterpret_cast<uintptr_t>(memory);
  driver().memory[reinterpret_cast<uintptr_t>(memory)] = bytes;
  return kSuccess;
}

int cuMemFree_v2(uint64_t address) {
  const auto found = driver().memory.find(static_cast<uintptr_t>(address));
  if (found == driver().memory.end()) return kInvalidValue;
  if (found->second >= kLarge) {
    munmap(at(address), found->second);
  } else {
    std::free(at(address));
  }
  driver().memory.erase(found);
  fake_forget(address);
  return kSuccess;
}

int cuMemcpyHtoD_v2(uint64_t to, const void* from, size_t bytes) {
  if (!is_inside(to, bytes)) return kInvalidValue;
  std::memcpy(at(to), from, bytes);
  return kSuccess;
}

int cuMemcpyDtoH_v2(void* to, uint64_t from, size_t bytes) {
  if (!is_inside(from, bytes)) return kInvalidValue;
  std::memcpy(to, at(from), bytes);
  return kSuccess;
}

int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, Stream* stream) {
  if (!is_inside(from, bytes)) return kInvalidValue;
  return submit(stream, [=] { std::memcpy(to, at(from), bytes); });
}

int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, Stream* stream) {
  if (!is_inside(to, bytes)) return kInvalidValue;
  return submit(stream, [=] { std::memset(at(to), value, bytes); });
}

int cuMemsetD8_v2(uint64_t to, unsigned char value, size_t bytes) {
  return cuMemsetD8Async(to, value, bytes, nullptr);
}

int cuStreamCreate(Stream** stream, unsigned) {
  *stream = new Stream;
  driver().streams.push_back(*stream);
  return kSuccess;
}

int cuStreamDestroy_v2(Stream* stream) {
  std::erase(driver().streams, stream);
  delete stream;
  return kSuccess;
}

int cuStreamSynchronize(Stream*) {
  if (driver().lost) return kIllegalAddress;
  return forbidden_in_capture();
}

int cuStreamBeginCapture_v2(Stream* stream, int) {
  stream->capturing = true;
  return kSuccess;
}

int cuStreamIsCapturing(Stream* stream, int* status) {
  *status = stream->capturing ? 1 : 0;
  return kSuccess;
}

int cuStreamEndCapture(Stream* stream, Graph** graph) {
  auto captured = std::make_unique<Graph>(Graph{std::move(stream->recorded)});
  const bool invalidated = stream->invalidated;
  *stream = Stream{};
  if (invalidated) return kCaptureInvalidated;
  *graph = captured.release();
  return kSuccess;
}

int cuGraphGetNodes(Graph* graph, void*, size_t* count) {
  *count = graph->work.size();
  return kSuccess;
}

int cuGraphInstantiateWithFlags(Graph** exec, Graph* graph, unsigned long long) {
  *exec = new Graph(*graph);
  return kSuccess;
}

int cuGraphLaunch(Graph* exec, Stream* stream) {
  return submit(stream, [work = exec->work] {
    for (const Work& one : work) one();
  });
}

int cuGraphExecDestroy(Graph* exec) {
  delete exec;
  return kSuccess;
}

int cuGraphDestroy(Graph* graph) {
  delete graph;
  return kSuccess;
}

int cuLaunchHostFunc(Stream* stream, void (*function)(void*), void* data) {
  return submit(stream, [=] { function(data); });
}

int cuEventCreate(void** event, unsigned) {
  *event = new char;
  return kSuccess;
}

int cuEventDestroy_v2(void* event) {
  delete static_cast<char*>(event);
  return kSuccess;
}

int cuEventRecord(void*, Stream*) {
  return kSuccess;
}

int cuEventSynchronize(void*) {
  return kSuccess;
}

int cuEventElapsedTime(float* milliseconds, void*, void*) {
  *milliseconds = 0.125F;
  return kSuccess;
}

int cuModuleLoad(void** module, const char* path) {
  std::FILE* file = std::fopen(path, "rb");
  if (file == nullptr) return kFileNotFound;
  *module = file;
  return kSuccess;
}

int cuModuleGetFunction(void** function, void*, const char* name) {
  *function = &driver().names.emplace(name, name).first->second;
  return kSuccess;
}

int cuModuleUnload(void* module) {
  std::fclose(static_cast<std::FILE*>(module));
  return kSuccess;
}

int cuFuncSetAttribute(void*, int, int) {
  return kSuccess;
}

// What a kernel in a graph would do is left out.
int cuLaunchKernel(void* function, unsigned grid_x, unsigned, unsigned, unsigned block_x, unsigned, unsigned, unsigned,
                   Stream* stream, void** arguments, void**) {
  if (grid_x == 0 || block_x == 0 || block_x > 1024) return kInvalidValue;
  const char* name = static_cast<const std::string*>(function)->c_str();
  if (stream != nullptr && stream->capturing) return submit(stream, [] {});
  fake_run_kernel(name, arguments);
  return kSuccess;
}
}
// NOLINTEND(readability-identifier-naming)
