// The memory that timed calls work on.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/bench/read_kernels.h"
#include "kernels/bench/sampling.h"
#include "kernels/device/driver.h"

namespace flashmla::bench {

// KV pages as far as wanted: a block of random records, made on the host, over and over again. Every reader reads other
// addresses; that their contents repeat is nothing a cache could use.
class KvPool {
 public:
  // Pages of that kind, at least that many bytes; kept if there are enough already.
  device::Status ensure(const device::Device& device, const ReadKernels& kernels, const device::Stream& stream,
                        CacheKind kind, int64_t bytes);
  const uint8_t* at(int64_t offset) const { return memory_.as<const uint8_t>() + offset; }
  const device::Buffer& memory() const { return memory_; }

  // The fold of the 16 bytes at `offset`, which is a multiple of 16.
  uint32_t fold(int64_t offset) const;

 private:
  CacheKind kind_ = CacheKind::kV4;
  std::vector<uint8_t> block_;
  device::Buffer memory_;
};

// What else a call of one shape needs.
class CallMemory {
 public:
  static device::Result<CallMemory> make(const device::Device& device, const DeviceShape& shape, Random& random);

  // Calls on set number `set` of disjoint pools. Workspace and stream are left to the caller.
  flashmla_sparse_decode_params sparse(const KvPool& pool, int64_t set) const;
  flashmla_dense_decode_params dense(const KvPool& pool, int64_t set) const;
  // A kernel that reads the same.
  ReadArguments read(const KvPool& pool, int64_t set) const;
  // Its fold, computed on the host.
  uint32_t expected_fold(const KvPool& pool, int64_t set) const;

  const DeviceShape& shape() const { return shape_; }
  const Selection& selection() const { return selection_; }
  int64_t set_bytes() const;  // from one pool to the next one
  int64_t sets() const { return cold_sets(unique_bytes(shape_, selection_)); }

  device::Status poison_results();
  // A message if the last call left a result unwritten or not finite.
  device::Status check_results() const;

 private:
  CallMemory() = default;
  template <typename Params>
  Params common() const;  // what both kinds of call have
  int64_t set_offset(int64_t set, bool extra) const;
  flashmla_sparse_kv cache(const KvPool& pool, int64_t set, bool extra) const;

  DeviceShape shape_;
  Selection selection_;
  device::Buffer q_, out_, lse_, sink_, main_slots_, extra_slots_, main_lengths_, extra_lengths_;
};

}  // namespace flashmla::bench
