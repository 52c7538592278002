// The integers that a pass starts from, gathered in one block of host memory and copied to the device at once.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "orchestrator/engine/embedded/cuda/runtime.h"

namespace sweep::engine::embedded::cuda {

class Staging {
 public:
  static constexpr int64_t kAlignment = 16;

  Staging() = default;
  explicit Staging(int64_t bytes) : host_(bytes), device_(bytes) {}

  // Begins anew. What was staged before must have been copied.
  void clear() { used_ = 0; }

  // Appends the values; gives where they will be on the device. The same sequence of sizes gives the same places.
  template <class T>
  const T* add(const std::vector<T>& values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
    if (used_ + bytes > host_.size())
      throw std::runtime_error("a pass has more rows or sequences than it was made for");
    if (bytes > 0) std::memcpy(host_.get() + used_, values.data(), static_cast<size_t>(bytes));
    const auto* const place = reinterpret_cast<const T*>(device_.get() + used_);
    used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return place;
  }

  void copy(cudaStream_t stream) const {
    check(cudaMemcpyAsync(device_.get(), host_.get(), static_cast<size_t>(used_), cudaMemcpyHostToDevice, stream),
          "cudaMemcpyAsync");
  }

 private:
  PinnedArray<uint8_t> host_;
  DeviceArray<uint8_t> device_;
  int64_t used_ = 0;
};

}  // namespace sweep::engine::embedded::cuda
