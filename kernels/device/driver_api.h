// The functions of the CUDA driver that this project calls, found in libcuda.so.1 at run time. The prototypes are our
// own, so that neither a CUDA header nor a CUDA library is needed to build. Source: "CUDA Driver API", the functions of
// the same names; a suffix _v2 is part of the symbol's name.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/device/result.h"

namespace flashmla::device {

using DevicePointer = uint64_t;  // CUdeviceptr
using DeviceHandle = int;        // CUdevice

struct ContextObject;
struct StreamObject;
struct EventObject;
struct GraphObject;
struct GraphExecObject;
struct ModuleObject;
struct FunctionObject;
using ContextHandle = ContextObject*;      // CUcontext
using StreamHandle = StreamObject*;        // CUstream, which is a cudaStream_t too
using EventHandle = EventObject*;          // CUevent
using GraphHandle = GraphObject*;          // CUgraph
using GraphExecHandle = GraphExecObject*;  // CUgraphExec
using ModuleHandle = ModuleObject*;        // CUmodule
using FunctionHandle = FunctionObject*;    // CUfunction

// NOLINTBEGIN(readability-identifier-naming): the driver's own names
struct DriverApi {
  int (*cuInit)(unsigned flags);
  int (*cuDriverGetVersion)(int* version);
  int (*cuGetErrorName)(int error, const char** name);
  int (*cuGetErrorString)(int error, const char** text);

  int (*cuDeviceGetCount)(int* count);
  int (*cuDeviceGet)(DeviceHandle* device, int ordinal);
  int (*cuDeviceGetName)(char* name, int length, DeviceHandle device);
  int (*cuDeviceGetAttribute)(int* value, int attribute, DeviceHandle device);
  int (*cuDeviceGetPCIBusId)(char* id, int length, DeviceHandle device);
  int (*cuDeviceTotalMem_v2)(size_t* bytes, DeviceHandle device);
  int (*cuDevicePrimaryCtxRetain)(ContextHandle* context, DeviceHandle device);
  int (*cuDevicePrimaryCtxRelease_v2)(DeviceHandle device);
  int (*cuCtxSetCurrent)(ContextHandle context);

  int (*cuMemAlloc_v2)(DevicePointer* pointer, size_t bytes);
  int (*cuMemFree_v2)(DevicePointer pointer);
  int (*cuMemcpyHtoD_v2)(DevicePointer to, const void* from, size_t bytes);
  int (*cuMemcpyDtoH_v2)(void* to, DevicePointer from, size_t bytes);
  int (*cuMemcpyDtoHAsync_v2)(void* to, DevicePointer from, size_t bytes, StreamHandle stream);
  int (*cuMemsetD8_v2)(DevicePointer to, unsigned char value, size_t bytes);
  int (*cuMemsetD8Async)(DevicePointer to, unsigned char value, size_t bytes, StreamHandle stream);

  int (*cuStreamCreate)(StreamHandle* stream, unsigned flags);
  int (*cuStreamDestroy_v2)(StreamHandle stream);
  int (*cuStreamSynchronize)(StreamHandle stream);
  int (*cuStreamBeginCapture_v2)(StreamHandle stream, int mode);
  int (*cuStreamEndCapture)(StreamHandle stream, GraphHandle* graph);
  int (*cuGraphGetNodes)(GraphHandle graph, void* nodes, size_t* count);
  int (*cuGraphInstantiateWithFlags)(GraphExecHandle* exec, GraphHandle graph, unsigned long long flags);
  int (*cuGraphLaunch)(GraphExecHandle exec, StreamHandle stream);
  int (*cuGraphExecDestroy)(GraphExecHandle exec);
  int (*cuGraphDestroy)(GraphHandle graph);

  int (*cuEventCreate)(EventHandle* event, unsigned flags);
  int (*cuEventRecord)(EventHandle event, StreamHandle stream);
  int (*cuEventSynchronize)(EventHandle event);
  int (*cuEventElapsedTime)(float* milliseconds, EventHandle start, EventHandle end);  // _v2 where there is one
  int (*cuEventDestroy_v2)(EventHandle event);

  int (*cuModuleLoad)(ModuleHandle* module, const char* path);
  int (*cuModuleGetFunction)(FunctionHandle* function, ModuleHandle module, const char* name);
  int (*cuModuleUnload)(ModuleHandle module);
  int (*cuFuncSetAttribute)(FunctionHandle function, int attribute, int value);
  int (*cuLaunchKernel)(FunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, StreamHandle stream,
                        void** arguments, void** extra);

  // Success, or a message such as "cuMemAlloc_v2 failed: CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
  Status check(int code, const char* function) const;
};
// NOLINTEND(readability-identifier-naming)

// Finds all functions in the library of that name. The library stays loaded: the driver has threads of its own.
Result<DriverApi> load_driver_api(const char* library);

}  // namespace flashmla::device
