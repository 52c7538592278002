#include "kernels/bench/read_kernels.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace flashmla::bench {

using device::Result;
using device::Status;

namespace {

constexpr uint32_t kThreads = 512;
constexpr uint64_t kLinearBlockPieces = 8 * kThreads;  // what a block of the linear read takes at a time
// No fold of random data is this but once in 2^32.
constexpr uint32_t kSinkWhen = 0x5bd1e995;

}  // namespace

std::string ReadGrid::text() const {
  return std::to_string(unroll) + " x " + std::to_string(threads) + " threads, " +
         (blocks == 0 ? std::string("one pass") : std::to_string(blocks) + " blocks");
}

std::vector<ReadGrid> read_grids(uint64_t pieces) {
  // Below a few pieces a resident thread, latency decides; above, the number of loads in flight.
  constexpr uint64_t kFewPieces = 1 << 20;
  if (pieces <= kFewPieces) return {{1, 128, 0}, {1, 256, 0}, {1, 512, 0}, {2, 256, 0}, {4, 256, 0}};
  return {{1, 512, 0}, {2, 512, 0}, {4, 512, 0}, {8, 512, 0}, {4, 512, 1056}, {8, 512, 2112}};
}

uint64_t pieces(const ReadArguments& arguments) {
  return (uint64_t{arguments.main.count} + arguments.extra.count) *
         (arguments.layout.data_pieces + arguments.layout.scale_pieces);
}

Result<ReadKernels> ReadKernels::load(const device::Device& device, const std::string& path) {
  auto module = device.load_module(path);
  if (!module) return module.status();
  ReadKernels kernels;
  kernels.module_ = std::move(*module);
  const std::pair<const char*, device::Kernel*> wanted[] = {
      {"flashmla_plain_read_1", &kernels.read_[0]}, {"flashmla_plain_read_2", &kernels.read_[1]},
      {"flashmla_plain_read_4", &kernels.read_[2]}, {"flashmla_plain_read_8", &kernels.read_[3]},
      {"flashmla_plain_read_fold", &kernels.fold_}, {"flashmla_linear_read", &kernels.linear_},
      {"flashmla_repeat", &kernels.repeat_},        {"flashmla_empty", &kernels.empty_}};
  for (const auto& [name, kernel] : wanted) {
    const auto found = kernels.module_.kernel(name);
    if (!found) return found.status();
    *kernel = *found;
  }
  auto sink = device.allocate(sizeof(uint32_t));
  if (!sink) return sink.status();
  kernels.sink_ = std::move(*sink);
  return kernels;
}

Status ReadKernels::touch(const device::Stream& stream) const {
  const device::Buffer nothing;
  uint64_t bytes = 0;
  Status status;
  for (const int32_t unroll : {1, 2, 4, 8}) {
    if (status) status = read({.unroll = unroll}, {}, stream);
  }
  if (status) status = read_linear(nothing, 1, stream, bytes);
  if (status) status = empty(1, 32, stream);
  return status ? stream.synchronize() : status;
}

Status ReadKernels::read(const ReadGrid& grid, const ReadArguments& arguments, const device::Stream& stream) const {
  const uint64_t total = pieces(arguments);
  if (total > std::numeric_limits<uint32_t>::max() / 2) return Status::failure("too many pieces for a plain read");
  const uint64_t per_block = uint64_t{grid.threads} * static_cast<uint32_t>(grid.unroll);
  const auto one_pass = static_cast<uint32_t>(std::max<uint64_t>(1, (total + per_block - 1) / per_block));
  const uint32_t blocks = grid.blocks == 0 ? one_pass : std::min(grid.blocks, one_pass);
  ReadArguments with_sink = arguments;
  with_sink.sink = sink();
  with_sink.sink_when = kSinkWhen;
  const auto kernel = static_cast<size_t>(std::countr_zero(static_cast<uint32_t>(grid.unroll)));
  return read_[kernel].launch({.grid = {blocks, 1, 1}, .block = {grid.threads, 1, 1}}, stream, {&with_sink});
}

Result<uint32_t> ReadKernels::fold(ReadArguments arguments, const device::Stream& stream) const {
  arguments.sink = sink();
  const uint64_t per_block = 4 * kThreads;
  const auto blocks = static_cast<uint32_t>(std::max<uint64_t>(1, (pieces(arguments) + per_block - 1) / per_block));
  uint32_t folded = 0;
  Status status = stream.fill(sink_, 0);
  if (status) {
    status = fold_.launch({.grid = {std::min(blocks, 4096U), 1, 1}, .block = {kThreads, 1, 1}}, stream, {&arguments});
  }
  if (status) status = stream.copy_to(&folded, sink_);
  if (status) status = stream.synchronize();
  if (!status) return status;
  return folded;
}

Status ReadKernels::read_linear(const device::Buffer& buffer, uint32_t blocks, const device::Stream& stream,
                                uint64_t& bytes) const {
  const LinearReadArguments arguments = {.data = buffer.as<const uint8_t>(),
                                         .pieces = buffer.bytes() / 16 / kLinearBlockPieces * kLinearBlockPieces,
                                         .sink = sink(),
                                         .sink_when = kSinkWhen};
  bytes = arguments.pieces * 16;
  const auto one_pass = static_cast<uint32_t>(std::max<uint64_t>(1, arguments.pieces / kLinearBlockPieces));
  const uint32_t grid = blocks == 0 ? one_pass : std::min(blocks, one_pass);
  return linear_.launch({.grid = {grid, 1, 1}, .block = {kThreads, 1, 1}}, stream, {&arguments});
}

Status ReadKernels::repeat(const device::Buffer& block, const device::Buffer& buffer,
                           const device::Stream& stream) const {
  const RepeatArguments arguments = {.memory = buffer.as<uint8_t>(),
                                     .pieces = buffer.bytes() / 16,
                                     .block = block.as<const uint8_t>(),
                                     .block_pieces = block.bytes() / 16};
  return repeat_.launch({.grid = {2112, 1, 1}, .block = {kThreads, 1, 1}}, stream, {&arguments});
}

Status ReadKernels::empty(uint32_t blocks, uint32_t threads, const device::Stream& stream) const {
  return empty_.launch({.grid = {blocks, 1, 1}, .block = {threads, 1, 1}}, stream, {});
}

}  // namespace flashmla::bench
