// A CUDA driver without a device: the functions that flashmla-bench calls, on memory of the host. Memory is reserved,
// not touched; a graph takes a millisecond whatever is in it. Of the kernels, the one that fills memory with
// repetitions of a block is remembered instead of done, and the one that folds what it reads is computed from that, so
// that what the benchmark reads is checked here as it is on a GPU.
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "kernels/bench/plain_read.h"

namespace {

using flashmla::bench::ReadArguments;
using flashmla::bench::ReadCache;
using flashmla::bench::ReadLayout;
using flashmla::bench::RepeatArguments;

constexpr int kSuccess = 0;
constexpr int kInvalidValue = 1;
constexpr int kOutOfMemory = 2;
constexpr int kFileNotFound = 301;
constexpr int kStreamCaptureUnsupported = 900;

struct Repeated {
  uint64_t bytes;
  std::vector<uint8_t> block;
};

std::map<uint64_t, size_t> g_allocated;
std::map<uint64_t, Repeated> g_repeated;  // by address
std::set<std::string> g_names;            // of functions; their addresses are the handles
bool g_capturing = false;
size_t g_nodes = 0;

void* token(uintptr_t number) {
  return reinterpret_cast<void*>(number);
}

template <typename T>
T* at(uint64_t address) {
  return reinterpret_cast<T*>(static_cast<uintptr_t>(address));
}

uint32_t fold_16(const uint8_t* address) {
  const auto number = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(address));
  auto found = g_repeated.upper_bound(number);
  if (found == g_repeated.begin()) std::abort();
  --found;
  const uint64_t offset = number - found->first;
  if (offset + 16 > found->second.bytes || offset % 16 != 0) std::abort();  // a GPU would read elsewhere, or fault
  uint32_t words[4];
  std::memcpy(words, found->second.block.data() + offset % found->second.block.size(), sizeof words);
  return words[0] ^ words[1] ^ words[2] ^ words[3];
}

uint32_t fold(const ReadCache& cache, const ReadLayout& layout) {
  uint32_t folded = 0;
  const uint64_t page_size = uint64_t{1} << layout.page_shift;
  for (uint32_t n = 0; n < cache.count; ++n) {
    if (cache.slots[n] < 0) continue;
    const auto slot = static_cast<uint64_t>(cache.slots[n]);
    const uint8_t* page = cache.pool + slot / page_size * layout.page_stride;
    const uint64_t row = slot % page_size;
    const uint64_t scales = (page_size * layout.data_bytes + row * layout.scale_bytes) / 16 * 16;
    for (uint64_t i = 0; i < layout.data_pieces; ++i) folded ^= fold_16(page + row * layout.data_bytes + 16 * i);
    for (uint64_t i = 0; i < layout.scale_pieces; ++i) folded ^= fold_16(page + scales + 16 * i);
  }
  return folded;
}

// Nothing may wait or allocate while work is recorded.
int unless_capturing() {
  return g_capturing ? kStreamCaptureUnsupported : kSuccess;
}

}  // namespace

extern "C" {

int cuInit(unsigned) {
  return kSuccess;
}
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return kSuccess;
}
int cuGetErrorName(int, const char** name) {
  *name = "CUDA_ERROR_OF_THE_STAND_IN";
  return kSuccess;
}
int cuGetErrorString(int, const char** text) {
  *text = "the stand-in refused";
  return kSuccess;
}
int cuDeviceGetCount(int* count) {
  *count = 1;
  return kSuccess;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return kSuccess;
}
int cuDeviceGetName(char* name, int length, int) {
  const char* wanted = std::getenv("STAND_IN_DEVICE");
  std::snprintf(name, static_cast<size_t>(length), "%s", wanted != nullptr ? wanted : "Stand-in");
  return kSuccess;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  constexpr int kMultiprocessors = 16, kMajor = 75;
  *value = attribute == kMultiprocessors ? 132 : attribute == kMajor ? 9 : 0;
  return kSuccess;
}
int cuDeviceGetPCIBusId(char* id, int length, int) {
  std::snprintf(id, static_cast<size_t>(length), "0000:00:00.0");
  return kSuccess;
}
int cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = size_t{140} << 30;
  return kSuccess;
}
int cuDevicePrimaryCtxRetain(void** context, int) {
  *context = token(1);
  return kSuccess;
}
int cuDevicePrimaryCtxRelease_v2(int) {
  return kSuccess;
}
int cuCtxSetCurrent(void*) {
  return kSuccess;
}

int cuMemAlloc_v2(uint64_t* pointer, size_t bytes) {
  if (bytes == 0) return kInvalidValue;
  if (g_capturing) return kStreamCaptureUnsupported;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return kOutOfMemory;
  *pointer = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(memory));
  g_allocated[*pointer] = bytes;
  return kSuccess;
}
int cuMemFree_v2(uint64_t pointer) {
  const auto found = g_allocated.find(pointer);
  if (found == g_allocated.end()) return kInvalidValue;
  munmap(at<void>(pointer), found->second);
  g_allocated.erase(found);
  g_repeated.erase(pointer);
  return kSuccess;
}
int cuMemcpyHtoD_v2(uint64_t to, const void* from, size_t bytes) {
  std::memcpy(at<void>(to), from, bytes);
  return unless_capturing();
}
int cuMemcpyDtoH_v2(void* to, uint64_t from, size_t bytes) {
  std::memcpy(to, at<void>(from), bytes);
  return unless_capturing();
}
int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void*) {
  std::memcpy(to, at<void>(from), bytes);
  return kSuccess;
}
int cuMemsetD8_v2(uint64_t to, unsigned char value, size_t bytes) {
  std::memset(at<void>(to), value, bytes);
  return unless_capturing();
}
int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, void*) {
  std::memset(at<void>(to), value, bytes);
  return kSuccess;
}

int cuStreamCreate(void** stream, unsigned) {
  *stream = token(2);
  return kSuccess;
}
int cuStreamDestroy_v2(void*) {
  return kSuccess;
}
int cuStreamSynchronize(void*) {
  return unless_capturing();
}
int cuStreamBeginCapture_v2(void*, int) {
  if (g_capturing) return kInvalidValue;
  g_capturing = true;
  g_nodes = 0;
  return kSuccess;
}
int cuStreamEndCapture(void*, void** graph) {
  if (!g_capturing) return kInvalidValue;
  g_capturing = false;
  *graph = token(3);
  return kSuccess;
}
int cuGraphGetNodes(void*, void*, size_t* count) {
  *count = g_nodes;
  return kSuccess;
}
int cuGraphInstantiateWithFlags(void** exec, void*, unsigned long long) {
  *exec = token(4);
  return kSuccess;
}
int cuGraphLaunch(void*, void*) {
  return unless_capturing();
}
int cuGraphExecDestroy(void*) {
  return kSuccess;
}
int cuGraphDestroy(void*) {
  return kSuccess;
}

int cuEventCreate(void** event, unsigned) {
  *event = token(5);
  return kSuccess;
}
int cuEventRecord(void*, void*) {
  return kSuccess;
}
int cuEventSynchronize(void*) {
  return kSuccess;
}
int cuEventElapsedTime(float* milliseconds, void*, void*) {
  *milliseconds = 1;
  return kSuccess;
}
int cuEventDestroy_v2(void*) {
  return kSuccess;
}

int cuModuleLoad(void** module, const char* path) {
  std::FILE* file = std::fopen(path, "rb");
  if (file == nullptr) return kFileNotFound;
  std::fclose(file);
  *module = token(6);
  return kSuccess;
}
int cuModuleGetFunction(void** function, void*, const char* name) {
  *function = const_cast<std::string*>(&*g_names.insert(name).first);
  return kSuccess;
}
int cuModuleUnload(void*) {
  return kSuccess;
}
int cuFuncSetAttribute(void*, int, int) {
  return kSuccess;
}
int cuLaunchKernel(void* function, unsigned grid_x, unsigned, unsigned, unsigned block_x, unsigned, unsigned, unsigned,
                   void*, void** arguments, void**) {
  if (grid_x == 0 || block_x == 0 || block_x > 1024) return kInvalidValue;
  ++g_nodes;
  const std::string& name = *static_cast<const std::string*>(function);
  if (g_capturing) return kSuccess;
  if (name == "flashmla_repeat") {
    const auto& repeat = *static_cast<const RepeatArguments*>(arguments[0]);
    const auto address = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(repeat.memory));
    g_repeated[address] = {repeat.pieces * 16, {repeat.block, repeat.block + repeat.block_pieces * 16}};
  } else if (name == "flashmla_plain_read_fold") {
    const auto& read = *static_cast<const ReadArguments*>(arguments[0]);
    const uint32_t folded = fold(read.main, read.layout) ^ fold(read.extra, read.layout);
    *read.sink ^= std::getenv("STAND_IN_WRONG_FOLD") != nullptr ? ~folded : folded;
  }
  return kSuccess;
}

}  // extern "C"
