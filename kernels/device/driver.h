// Devices, memory, streams, graphs, events and kernels of the CUDA driver, each owned by an object. Everything that can
// fail returns a Status or a Result; nothing throws. Objects must not outlive the Device they came from.
//
// A Device holds the device's primary context, which a library built on the CUDA runtime shares: pointers made here
// are valid there, and a StreamHandle is its cudaStream_t. A context is current per thread: the thread that opens a
// Device has it, another one calls make_current().
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include "kernels/device/driver_api.h"

namespace flashmla::device {

// A handle that is destroyed by a function of the driver.
template <typename Handle, int (*DriverApi::*kDestroy)(Handle)>
class Owned {
 public:
  Owned() = default;
  Owned(const DriverApi* api, Handle handle) : api_(api), handle_(handle) {}
  ~Owned() { reset(); }
  Owned(Owned&& other) noexcept : api_(other.api_), handle_(std::exchange(other.handle_, Handle{})) {}
  Owned& operator=(Owned&& other) noexcept {
    if (this == &other) return *this;
    reset();
    api_ = other.api_;
    handle_ = std::exchange(other.handle_, Handle{});
    return *this;
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;

  Handle get() const { return handle_; }
  const DriverApi& api() const { return *api_; }

 private:
  void reset() {
    if (handle_ != Handle{}) (api_->*kDestroy)(handle_);
    handle_ = Handle{};
  }

  const DriverApi* api_ = nullptr;
  Handle handle_{};
};

// Memory on the device. Copies and fills here are complete when they return.
class Buffer {
 public:
  Buffer() = default;  // of no bytes
  DevicePointer address() const { return owned_.get(); }
  // As an argument of the C API: not to be read on the host.
  template <typename T>
  T* as() const {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver's own convention
    return reinterpret_cast<T*>(static_cast<uintptr_t>(address()));
  }
  size_t bytes() const { return bytes_; }

  Status fill(unsigned char value);
  Status copy_from(const void* host);  // bytes() of them
  Status copy_to(void* host) const;

 private:
  friend class Device;
  Owned<DevicePointer, &DriverApi::cuMemFree_v2> owned_;
  size_t bytes_ = 0;
};

class Stream;

class Event {
 public:
  Status record(const Stream& stream);
  Status synchronize();
  // Microseconds from `start` to this event; both must have been reached.
  Result<double> microseconds_since(const Event& start) const;

 private:
  friend class Device;
  Owned<EventHandle, &DriverApi::cuEventDestroy_v2> owned_;
};

// A captured sequence of work, ready to be launched.
class Graph {
 public:
  Status launch(const Stream& stream);
  size_t nodes() const { return nodes_; }

 private:
  friend class Stream;
  Owned<GraphExecHandle, &DriverApi::cuGraphExecDestroy> exec_;
  size_t nodes_ = 0;
};

// Does not wait for, nor is waited for by, the default stream.
class Stream {
 public:
  StreamHandle get() const { return owned_.get(); }
  Status synchronize() const;
  // In order with the other work of the stream. From `offset` to the end of the buffer.
  Status fill(const Buffer& buffer, unsigned char value, size_t offset = 0) const;
  // `host` must live until synchronize().
  Status copy_to(void* host, const Buffer& buffer, size_t offset = 0) const;

  // Between the two, work given to this stream is recorded instead of done, and a call of this process that would
  // allocate or wait fails (capture mode "global"). end_capture() must be called even if something failed in between.
  Status begin_capture() const;
  Result<Graph> end_capture() const;

 private:
  friend class Device;
  Owned<StreamHandle, &DriverApi::cuStreamDestroy_v2> owned_;
};

struct LaunchShape {
  unsigned grid[3] = {1, 1, 1};   // blocks
  unsigned block[3] = {1, 1, 1};  // threads
  unsigned shared_bytes = 0;      // dynamic
};

// A function of a module; valid as long as the module is.
class Kernel {
 public:
  // Needed for more than 48 KiB of dynamic shared memory.
  Status allow_shared_bytes(int bytes);
  // `arguments`: the address of each argument of the kernel, in order.
  Status launch(const LaunchShape& shape, const Stream& stream, std::initializer_list<const void*> arguments) const;

 private:
  friend class Module;
  const DriverApi* api_ = nullptr;
  FunctionHandle handle_ = nullptr;
};

class Module {
 public:
  Result<Kernel> kernel(const char* name) const;

 private:
  friend class Device;
  Owned<ModuleHandle, &DriverApi::cuModuleUnload> owned_;
};

struct DeviceInfo {
  int ordinal = 0;
  std::string name;          // "NVIDIA H200"
  std::string pci_bus_id;    // "0000:1b:00.0", the name other tools know the device by
  int capability_major = 0;  // compute capability: 9.0 for sm_90a
  int capability_minor = 0;
  int multiprocessors = 0;
  int clock_khz = 0;  // highest SM clock; 0 = not known, as for the next
  int memory_clock_khz = 0;
  int l2_bytes = 0;
  int shared_bytes_per_block = 0;  // with opt-in
  size_t memory_bytes = 0;
  int driver_version = 0;  // highest CUDA version of the driver: 13000 for 13.0

  std::string capability() const;           // "9.0"
  std::string driver_cuda_version() const;  // "13.0"
};

class Device {
 public:
  ~Device();
  Device(Device&& other) noexcept;
  Device& operator=(Device&&) = delete;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DeviceInfo& info() const { return info_; }
  Status make_current() const;  // for the calling thread

  Result<Buffer> allocate(size_t bytes) const;  // exactly that many; 0 gives an empty buffer
  Result<Stream> create_stream() const;
  Result<Event> create_event() const;
  Result<Module> load_module(const std::string& path) const;  // a cubin or PTX file

 private:
  friend class Driver;
  Device(std::shared_ptr<const DriverApi> api, DeviceInfo info) : api_(std::move(api)), info_(std::move(info)) {}

  std::shared_ptr<const DriverApi> api_;
  DeviceInfo info_;
  DeviceHandle handle_ = 0;
  ContextHandle context_ = nullptr;
};

class Driver {
 public:
  static constexpr const char* kLibrary = "libcuda.so.1";

  // Fails where there is no driver, or no device that it can drive.
  static Result<Driver> open(const char* library = kLibrary);

  int devices() const { return devices_; }
  // Retains the primary context of that device and makes it current for the calling thread.
  Result<Device> device(int ordinal) const;

 private:
  Driver() = default;
  std::shared_ptr<const DriverApi> api_;
  int devices_ = 0;
  int version_ = 0;
};

}  // namespace flashmla::device
