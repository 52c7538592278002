// Measures a CUDA kernel library on the shapes of device_shapes.h. The protocol is that of the recorded upstream times:
// random data and pages, graphs of many launches, cold (disjoint pools of more than 220 MB in turn) and warm (the same
// pool), and in the same run the kernel that only reads the same bytes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/bench/clocks.h"
#include "kernels/bench/device_memory.h"
#include "kernels/bench/device_shapes.h"
#include "kernels/bench/timing.h"
#include "kernels/gate/library.h"

namespace flashmla::bench {

struct ShapeResult {
  DeviceShape shape;
  std::string error;  // why there are no times; empty if there are
  int64_t unique_tokens = 0;
  int64_t unique_bytes = 0;
  int64_t attended_bytes = 0;
  int64_t sets = 0;
  Timing cold, warm, read;
  std::string read_grid;
  std::optional<Clocks> clocks_before, clocks_after;

  bool ok() const { return error.empty(); }
  double kv_gbps() const;  // distinct bytes over the cold time
};

// What the card does at best.
struct Ceilings {
  double linear_gbps = 0;
  std::string linear_grid;
  double empty_us = 0;       // a node of a chain of empty kernels of one block
  double empty_full_us = 0;  // of a block of 384 threads on every multiprocessor
};

// Times of one number of query rows, in microseconds; 0: not measured.
struct TransitionPoint {
  int32_t query_rows = 0;
  int32_t batch = 0, s_q = 0;
  Timing heads_8, heads_16, heads_64;  // the library itself
  Timing padded_8, padded_16;          // the baseline, which pads to 64
  std::string error;
};

// A library and a context to call it in.
class Candidate {
 public:
  static std::unique_ptr<Candidate> open(const std::string& path, std::string& error);
  const gate::Library& library() const { return *library_; }
  device::Status sparse(const flashmla_sparse_decode_params& params) const;
  device::Status dense(const flashmla_dense_decode_params& params) const;
  device::Result<size_t> workspace(const CallMemory& memory, const KvPool& pool) const;

 private:
  device::Status as_status(flashmla_status status) const;
  std::unique_ptr<gate::Library> library_;
  std::unique_ptr<gate::Context> context_;
};

class DeviceBench {
 public:
  // `plain_read`: the cubin of plain_read.cu.
  static std::unique_ptr<DeviceBench> open(const std::string& plain_read, int32_t replays, std::string& error);

  const device::DeviceInfo& device() const { return device_->info(); }
  const ClockReader& clocks() const { return *clocks_; }

  device::Result<Ceilings> ceilings();
  // A shape that could not be measured is a result with an error.
  ShapeResult measure(const Candidate& candidate, const DeviceShape& shape);
  TransitionPoint transition(const Candidate& candidate, const Candidate* baseline, int32_t query_rows);

 private:
  DeviceBench() = default;
  device::Status measure(const Candidate& candidate, const DeviceShape& shape, ShapeResult& result);
  device::Result<CallMemory> prepare(const DeviceShape& shape);
  device::Result<Launch> prepare_call(const Candidate& candidate, CallMemory& memory);
  device::Result<Timing> cold(const CallMemory& memory, const Launch& call);
  device::Status measure_read(const CallMemory& memory, ShapeResult& result);
  device::Status time_transition(const Candidate& candidate, const DeviceShape& shape, Timing& timing);

  std::unique_ptr<device::Driver> driver_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<ClockReader> clocks_;
  std::unique_ptr<Timer> timer_;
  std::unique_ptr<ReadKernels> kernels_;
  KvPool pool_;
  device::Buffer workspace_;
  std::optional<CacheKind> checked_;  // the kind whose plain read was last compared with the host
  int32_t replays_ = 7;
};

}  // namespace flashmla::bench
