#include "kernels/device/driver.h"

#include <array>
#include <vector>

namespace flashmla::device {
namespace {

// Attribute numbers of cuDeviceGetAttribute and cuFuncSetAttribute.
constexpr int kClockRate = 13;
constexpr int kMultiprocessorCount = 16;
constexpr int kMemoryClockRate = 36;
constexpr int kL2CacheSize = 38;
constexpr int kCapabilityMajor = 75;
constexpr int kCapabilityMinor = 76;
constexpr int kMaxSharedMemoryPerBlockOptin = 97;
constexpr int kFunctionMaxDynamicSharedBytes = 8;

constexpr unsigned kStreamNonBlocking = 1;
constexpr int kCaptureModeGlobal = 0;

// Keeps the first failure of a row of calls.
class Calls {
 public:
  explicit Calls(const DriverApi& api) : api_(api) {}
  void check(int code, const char* function) {
    if (status_.ok()) status_ = api_.check(code, function);
  }
  const Status& status() const { return status_; }

 private:
  const DriverApi& api_;
  Status status_;
};

std::string dotted(int major, int minor) {
  return std::to_string(major) + "." + std::to_string(minor);
}

Result<DeviceInfo> read_info(const DriverApi& api, DeviceHandle device) {
  DeviceInfo info;
  Calls calls(api);
  std::array<char, 256> text{};
  calls.check(api.cuDeviceGetName(text.data(), static_cast<int>(text.size()), device), "cuDeviceGetName");
  info.name = text.data();
  text.fill('\0');
  calls.check(api.cuDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), device), "cuDeviceGetPCIBusId");
  info.pci_bus_id = text.data();
  auto attribute = [&](int& value, int number) {
    calls.check(api.cuDeviceGetAttribute(&value, number, device), "cuDeviceGetAttribute");
  };
  attribute(info.capability_major, kCapabilityMajor);
  attribute(info.capability_minor, kCapabilityMinor);
  attribute(info.multiprocessors, kMultiprocessorCount);
  attribute(info.l2_bytes, kL2CacheSize);
  attribute(info.shared_bytes_per_block, kMaxSharedMemoryPerBlockOptin);
  calls.check(api.cuDeviceTotalMem_v2(&info.memory_bytes, device), "cuDeviceTotalMem_v2");
  if (!calls.status()) return calls.status();
  // Not every device has clocks to speak of: they stay 0.
  api.cuDeviceGetAttribute(&info.clock_khz, kClockRate, device);
  api.cuDeviceGetAttribute(&info.memory_clock_khz, kMemoryClockRate, device);
  return info;
}

}  // namespace

// The synchronous copies and fills of the driver may return before the device is done, and our streams do not wait for
// the default stream: so these wait.
Status Buffer::fill(unsigned char value) {
  if (bytes_ == 0) return {};
  const DriverApi& api = owned_.api();
  Calls calls(api);
  calls.check(api.cuMemsetD8_v2(address(), value, bytes_), "cuMemsetD8_v2");
  calls.check(api.cuStreamSynchronize(nullptr), "cuStreamSynchronize");
  return calls.status();
}

Status Buffer::copy_from(const void* host) {
  if (bytes_ == 0) return {};
  const DriverApi& api = owned_.api();
  Calls calls(api);
  calls.check(api.cuMemcpyHtoD_v2(address(), host, bytes_), "cuMemcpyHtoD_v2");
  calls.check(api.cuStreamSynchronize(nullptr), "cuStreamSynchronize");
  return calls.status();
}

Status Buffer::copy_to(void* host) const {
  if (bytes_ == 0) return {};
  return owned_.api().check(owned_.api().cuMemcpyDtoH_v2(host, address(), bytes_), "cuMemcpyDtoH_v2");
}

Status Event::record(const Stream& stream) {
  return owned_.api().check(owned_.api().cuEventRecord(owned_.get(), stream.get()), "cuEventRecord");
}

Status Event::synchronize() {
  return owned_.api().check(owned_.api().cuEventSynchronize(owned_.get()), "cuEventSynchronize");
}

Result<double> Event::microseconds_since(const Event& start) const {
  float milliseconds = 0;
  const Status status = owned_.api().check(
      owned_.api().cuEventElapsedTime(&milliseconds, start.owned_.get(), owned_.get()), "cuEventElapsedTime");
  if (!status) return status;
  return 1e3 * double{milliseconds};
}

Status Graph::launch(const Stream& stream) {
  return exec_.api().check(exec_.api().cuGraphLaunch(exec_.get(), stream.get()), "cuGraphLaunch");
}

Status Stream::synchronize() const {
  return owned_.api().check(owned_.api().cuStreamSynchronize(get()), "cuStreamSynchronize");
}

Status Stream::fill(const Buffer& buffer, unsigned char value, size_t offset) const {
  if (offset >= buffer.bytes()) return {};
  return owned_.api().check(
      owned_.api().cuMemsetD8Async(buffer.address() + offset, value, buffer.bytes() - offset, get()),
      "cuMemsetD8Async");
}

Status Stream::copy_to(void* host, const Buffer& buffer, size_t offset) const {
  if (offset >= buffer.bytes()) return {};
  return owned_.api().check(
      owned_.api().cuMemcpyDtoHAsync_v2(host, buffer.address() + offset, buffer.bytes() - offset, get()),
      "cuMemcpyDtoHAsync_v2");
}

Status Stream::begin_capture() const {
  return owned_.api().check(owned_.api().cuStreamBeginCapture_v2(get(), kCaptureModeGlobal), "cuStreamBeginCapture_v2");
}

Result<Graph> Stream::end_capture() const {
  const DriverApi& api = owned_.api();
  GraphHandle captured = nullptr;
  Calls calls(api);
  calls.check(api.cuStreamEndCapture(get(), &captured), "cuStreamEndCapture");
  if (!calls.status()) return calls.status();
  const Owned<GraphHandle, &DriverApi::cuGraphDestroy> owner(&api, captured);
  Graph graph;
  GraphExecHandle exec = nullptr;
  calls.check(api.cuGraphGetNodes(captured, nullptr, &graph.nodes_), "cuGraphGetNodes");
  calls.check(api.cuGraphInstantiateWithFlags(&exec, captured, 0), "cuGraphInstantiateWithFlags");
  graph.exec_ = {&api, exec};
  if (!calls.status()) return calls.status();
  return graph;
}

Status Kernel::allow_shared_bytes(int bytes) {
  return api_->check(api_->cuFuncSetAttribute(handle_, kFunctionMaxDynamicSharedBytes, bytes), "cuFuncSetAttribute");
}

Status Kernel::launch(const LaunchShape& shape, const Stream& stream,
                      std::initializer_list<const void*> arguments) const {
  std::vector<void*> addresses;
  addresses.reserve(arguments.size());
  // The driver only reads them; its prototype does not say so.
  for (const void* argument : arguments) {
    addresses.push_back(const_cast<void*>(argument));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  }
  return api_->check(
      api_->cuLaunchKernel(handle_, shape.grid[0], shape.grid[1], shape.grid[2], shape.block[0], shape.block[1],
                           shape.block[2], shape.shared_bytes, stream.get(), addresses.data(), nullptr),
      "cuLaunchKernel");
}

Result<Kernel> Module::kernel(const char* name) const {
  Kernel kernel;
  kernel.api_ = &owned_.api();
  const Status status =
      kernel.api_->check(kernel.api_->cuModuleGetFunction(&kernel.handle_, owned_.get(), name), "cuModuleGetFunction");
  if (!status) return Status::failure(status.message() + ", kernel \"" + name + "\"");
  return kernel;
}

std::string DeviceInfo::capability() const {
  return dotted(capability_major, capability_minor);
}

std::string DeviceInfo::driver_cuda_version() const {
  return dotted(driver_version / 1000, driver_version % 1000 / 10);
}

Device::Device(Device&& other) noexcept
    : api_(std::move(other.api_)),
      info_(std::move(other.info_)),
      handle_(other.handle_),
      context_(std::exchange(other.context_, nullptr)) {}

Device::~Device() {
  if (context_ != nullptr) api_->cuDevicePrimaryCtxRelease_v2(handle_);
}

Status Device::make_current() const {
  return api_->check(api_->cuCtxSetCurrent(context_), "cuCtxSetCurrent");
}

Result<Buffer> Device::allocate(size_t bytes) const {
  Buffer buffer;
  if (bytes == 0) return buffer;
  DevicePointer address = 0;
  const Status status = api_->check(api_->cuMemAlloc_v2(&address, bytes), "cuMemAlloc_v2");
  if (!status) return Status::failure(status.message() + ", " + std::to_string(bytes) + " bytes");
  buffer.owned_ = {api_.get(), address};
  buffer.bytes_ = bytes;
  return buffer;
}

Result<Stream> Device::create_stream() const {
  StreamHandle handle = nullptr;
  const Status status = api_->check(api_->cuStreamCreate(&handle, kStreamNonBlocking), "cuStreamCreate");
  if (!status) return status;
  Stream stream;
  stream.owned_ = {api_.get(), handle};
  return stream;
}

Result<Event> Device::create_event() const {
  EventHandle handle = nullptr;
  const Status status = api_->check(api_->cuEventCreate(&handle, 0), "cuEventCreate");
  if (!status) return status;
  Event event;
  event.owned_ = {api_.get(), handle};
  return event;
}

Result<Module> Device::load_module(const std::string& path) const {
  ModuleHandle handle = nullptr;
  const Status status = api_->check(api_->cuModuleLoad(&handle, path.c_str()), "cuModuleLoad");
  if (!status) return Status::failure(status.message() + ", \"" + path + "\"");
  Module module;
  module.owned_ = {api_.get(), handle};
  return module;
}

Result<Driver> Driver::open(const char* library) {
  Result<DriverApi> api = load_driver_api(library);
  if (!api) return api.status();
  Driver driver;
  driver.api_ = std::make_shared<const DriverApi>(*api);
  Calls calls(*driver.api_);
  calls.check(api->cuInit(0), "cuInit");
  calls.check(api->cuDriverGetVersion(&driver.version_), "cuDriverGetVersion");
  calls.check(api->cuDeviceGetCount(&driver.devices_), "cuDeviceGetCount");
  if (!calls.status()) return calls.status();
  if (driver.devices_ == 0) return Status::failure("the CUDA driver sees no device");
  return driver;
}

Result<Device> Driver::device(int ordinal) const {
  if (ordinal < 0 || ordinal >= devices_) {
    return Status::failure("there is no device " + std::to_string(ordinal) + ", the CUDA driver sees " +
                           std::to_string(devices_));
  }
  Calls calls(*api_);
  DeviceHandle handle = 0;
  calls.check(api_->cuDeviceGet(&handle, ordinal), "cuDeviceGet");
  if (!calls.status()) return calls.status();
  Result<DeviceInfo> info = read_info(*api_, handle);
  if (!info) return info.status();
  info->ordinal = ordinal;
  info->driver_version = version_;
  Device device(api_, std::move(*info));
  device.handle_ = handle;
  calls.check(api_->cuDevicePrimaryCtxRetain(&device.context_, handle), "cuDevicePrimaryCtxRetain");
  calls.check(api_->cuCtxSetCurrent(device.context_), "cuCtxSetCurrent");
  if (!calls.status()) return calls.status();
  return device;
}

}  // namespace flashmla::device
