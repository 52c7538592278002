// The kernels of plain_read.cu, launched with the grids that read fastest.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "kernels/bench/plain_read.h"
#include "kernels/bench/timing.h"
#include "kernels/device/driver.h"

namespace flashmla::bench {

// A way of sharing out the pieces.
struct ReadGrid {
  int32_t unroll = 1;  // pieces a thread has in flight: 1, 2, 4 or 8
  uint32_t threads = 512;
  uint32_t blocks = 0;       // 0: as many as make one pass
  std::string text() const;  // "4 x 512 threads, one pass"
};

// Those worth trying for that many 16-byte pieces in all.
std::vector<ReadGrid> read_grids(uint64_t pieces);

// Pieces that the arguments name in all.
uint64_t pieces(const ReadArguments& arguments);

class ReadKernels {
 public:
  // `path`: the cubin of plain_read.cu for this device.
  static device::Result<ReadKernels> load(const device::Device& device, const std::string& path);

  // Launches each kernel once on nothing: the driver loads a kernel at its first launch, which must not be in a
  // capture.
  device::Status touch(const device::Stream& stream) const;

  device::Status read(const ReadGrid& grid, const ReadArguments& arguments, const device::Stream& stream) const;
  // Folds all that read() would read into one word, and waits for it.
  device::Result<uint32_t> fold(ReadArguments arguments, const device::Stream& stream) const;
  // All of a buffer but what is less than 64 KiB at its end; `bytes` is what will be read.
  device::Status read_linear(const device::Buffer& buffer, uint32_t blocks, const device::Stream& stream,
                             uint64_t& bytes) const;
  // Fills `buffer` with repetitions of `block`, whose length is a multiple of 16 bytes.
  device::Status repeat(const device::Buffer& block, const device::Buffer& buffer, const device::Stream& stream) const;
  device::Status empty(uint32_t blocks, uint32_t threads, const device::Stream& stream) const;

  uint32_t* sink() const { return sink_.as<uint32_t>(); }

 private:
  ReadKernels() = default;
  device::Module module_;
  std::array<device::Kernel, 4> read_;  // by log2 of the unrolling
  device::Kernel fold_, linear_, repeat_, empty_;
  device::Buffer sink_;
};

}  // namespace flashmla::bench
