#include "kernels/gate/device_placement.h"

#include <algorithm>
#include <stdexcept>

namespace flashmla::gate {
namespace {

constexpr uint8_t kOutputGuardByte = 0xa5;  // each byte of the guard values of Outputs

void fail(Execution& execution, const std::string& message) {
  execution.status = FLASHMLA_DEVICE_ERROR;
  execution.message = "the device failed: " + message;
}

}  // namespace

DevicePlacement::DevicePlacement(const Accelerator& accelerator, const Problem& problem, bool dense)
    : accelerator_(accelerator), problem_(problem), dense_(dense), host_outputs_(problem.make_outputs()) {}

device::Result<std::unique_ptr<DevicePlacement>> DevicePlacement::create(const Accelerator& accelerator,
                                                                         const Problem& problem, bool dense) {
  std::unique_ptr<DevicePlacement> placement(new DevicePlacement(accelerator, problem, dense));
  device::Status status = placement->allocate();
  if (status.ok()) status = placement->load(problem);
  if (!status.ok()) return status;
  return placement;
}

device::Status DevicePlacement::allocate() {
  auto place = [&](const Region& region, device::Buffer& buffer) {
    device::Result<device::Buffer> allocated = accelerator_.device.allocate(region.bytes);
    if (!allocated) return allocated.status();
    buffer = std::move(*allocated);
    moved_.push_back({region, &buffer});
    return device::Status();
  };
  const std::vector<Region> regions = problem_.inputs();
  inputs_.resize(regions.size());
  device::Status status;
  for (size_t i = 0; i < regions.size() && status.ok(); ++i) status = place(regions[i], inputs_[i]);
  if (status.ok()) status = place({host_outputs_.out.data(), host_outputs_.out.size() * sizeof(uint16_t)}, out_);
  if (status.ok()) status = place({host_outputs_.lse.data(), host_outputs_.lse.size() * sizeof(float)}, lse_);
  return status;
}

device::Status DevicePlacement::load(const Problem& problem) {
  const std::vector<Region> regions = problem.inputs();
  if (regions.size() != inputs_.size()) throw std::logic_error("the problems have different inputs");
  for (size_t i = 0; i < regions.size(); ++i) {
    if (regions[i].bytes != inputs_[i].bytes()) throw std::logic_error("the inputs have different sizes");
    device::Status status = inputs_[i].copy_from(regions[i].data);
    if (!status.ok()) return status;
  }
  return {};
}

template <typename T>
void DevicePlacement::move(T*& pointer) const {
  if (pointer == nullptr) return;
  const auto* address = reinterpret_cast<const uint8_t*>(pointer);
  for (const Moved& moved : moved_) {
    const auto* begin = static_cast<const uint8_t*>(moved.host.data);
    if (address < begin || address >= begin + moved.host.bytes) continue;
    pointer = reinterpret_cast<T*>(moved.buffer->as<uint8_t>() + (address - begin));
    return;
  }
  throw std::logic_error("a parameter points to memory that is not on the device");
}

void DevicePlacement::move_inputs(Sparse& params) const {
  for (flashmla_sparse_kv* cache : {&params.main, &params.extra}) {
    move(cache->pool);
    move(cache->indices);
    move(cache->topk_length);
  }
  move(params.attn_sink);
}

void DevicePlacement::move_inputs(Dense& params) const {
  move(params.kv);
  move(params.block_table);
  move(params.seq_lens);
}

template <typename Params>
Params DevicePlacement::device_params() {
  Params params = params_into(problem_, host_outputs_, Params{});
  move_inputs(params);
  move(params.q);
  move(params.out);
  move(params.lse);
  params.workspace = workspace_.as<void>();
  params.workspace_bytes = workspace_bytes_;
  params.stream = accelerator_.stream.get();
  return params;
}

device::Status DevicePlacement::make_workspace(size_t bytes) {
  if (workspace_.bytes() != 0 && workspace_bytes_ == bytes) return {};
  device::Result<device::Buffer> buffer = accelerator_.device.allocate(bytes + kWorkspaceGuardBytes);
  if (!buffer) return buffer.status();
  workspace_ = std::move(*buffer);
  workspace_bytes_ = bytes;
  return {};
}

device::Status DevicePlacement::poison() {
  const device::Stream& stream = accelerator_.stream;
  device::Status status = stream.fill(workspace_, kWorkspacePoison);
  if (status.ok()) status = stream.fill(workspace_, kWorkspaceGuard, workspace_bytes_);
  if (status.ok()) status = stream.fill(out_, kOutputGuardByte);
  if (status.ok()) status = stream.fill(lse_, kOutputGuardByte);
  return status;
}

device::Status DevicePlacement::read_back(Execution& execution) {
  const device::Stream& stream = accelerator_.stream;
  std::vector<uint8_t> guard(kWorkspaceGuardBytes);
  device::Status status = stream.copy_to(execution.outputs.out.data(), out_);
  if (status.ok()) status = stream.copy_to(execution.outputs.lse.data(), lse_);
  if (status.ok()) status = stream.copy_to(guard.data(), workspace_, workspace_bytes_);
  if (status.ok()) status = stream.synchronize();
  execution.workspace_kept =
      std::all_of(guard.begin(), guard.end(), [](uint8_t byte) { return byte == kWorkspaceGuard; });
  return status;
}

template <typename Params>
Execution DevicePlacement::run_as(const Context& context, const Change& change) {
  Execution execution;
  execution.outputs = problem_.make_outputs();
  Params params = device_params<Params>();
  size_t bytes = 0;
  execution.status = query_workspace(context, &params, &bytes);
  if (execution.status != FLASHMLA_OK) {
    execution.message = context.failure(execution.status);
    return execution;
  }
  device::Status status = make_workspace(bytes);
  if (status.ok()) status = poison();
  if (status.ok()) {
    params = device_params<Params>();
    change.apply(params);
    execution.status = decode(context, &params);
    if (execution.status != FLASHMLA_OK) execution.message = context.failure(execution.status);
    status = read_back(execution);
  }
  if (!status.ok()) fail(execution, status.message());
  return execution;
}

Execution DevicePlacement::run(const Context& context, const Change& change) {
  return dense_ ? run_as<Dense>(context, change) : run_as<Sparse>(context, change);
}

template <typename Params>
device::Result<device::Graph> DevicePlacement::capture_as(const Context& context) {
  Params params = device_params<Params>();
  size_t bytes = 0;
  flashmla_status called = query_workspace(context, &params, &bytes);
  if (called != FLASHMLA_OK) return device::Status::failure(context.failure(called));
  device::Status status = make_workspace(bytes);
  if (status.ok()) status = accelerator_.stream.begin_capture();
  if (!status.ok()) return status;
  params = device_params<Params>();
  called = decode(context, &params);
  const std::string message = called == FLASHMLA_OK ? std::string() : context.failure(called);
  device::Result<device::Graph> graph = accelerator_.stream.end_capture();
  if (!message.empty()) return device::Status::failure("the call fails while it is captured: " + message);
  return graph;
}

device::Result<device::Graph> DevicePlacement::capture(const Context& context) {
  return dense_ ? capture_as<Dense>(context) : capture_as<Sparse>(context);
}

Execution DevicePlacement::replay(device::Graph& graph) {
  Execution execution;
  execution.outputs = problem_.make_outputs();
  device::Status status = poison();
  if (status.ok()) status = graph.launch(accelerator_.stream);
  if (status.ok()) status = read_back(execution);
  if (!status.ok()) fail(execution, status.message());
  return execution;
}

}  // namespace flashmla::gate
