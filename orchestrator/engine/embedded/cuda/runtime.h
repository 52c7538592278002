// Errors of the CUDA runtime as exceptions, and memory that frees itself. Inside the library only.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace sweep::engine::embedded::cuda {

inline void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + " failed: " + cudaGetErrorString(error));
}

// Memory on the current device, zeroed.
template <class T>
class DeviceArray {
 public:
  DeviceArray() = default;
  explicit DeviceArray(int64_t count) : count_(count) {
    if (count == 0) return;
    check(cudaMalloc(reinterpret_cast<void**>(&data_), bytes()), "cudaMalloc");
    check(cudaMemset(data_, 0, bytes()), "cudaMemset");
  }
  DeviceArray(DeviceArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  DeviceArray& operator=(DeviceArray&& other) noexcept {  // what was here is freed with `other`
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~DeviceArray() { cudaFree(data_); }

  T* get() const { return data_; }
  int64_t size() const { return count_; }
  size_t bytes() const { return static_cast<size_t>(count_) * sizeof(T); }

 private:
  T* data_ = nullptr;
  int64_t count_ = 0;
};

// Memory of the host that copies need not wait for.
template <class T>
class PinnedArray {
 public:
  PinnedArray() = default;
  explicit PinnedArray(int64_t count) : count_(count) {
    if (count > 0) {
      check(cudaMallocHost(reinterpret_cast<void**>(&data_), static_cast<size_t>(count) * sizeof(T)), "cudaMallocHost");
    }
  }
  PinnedArray(PinnedArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  PinnedArray& operator=(PinnedArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~PinnedArray() { cudaFreeHost(data_); }

  T* get() const { return data_; }
  int64_t size() const { return count_; }

 private:
  T* data_ = nullptr;
  int64_t count_ = 0;
};

class Event {
 public:
  explicit Event(unsigned flags = cudaEventDefault) {
    check(cudaEventCreateWithFlags(&event_, flags), "cudaEventCreate");
  }
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&&) = delete;
  ~Event() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  cudaEvent_t get() const { return event_; }

  // Seconds from `begin` to this one; both have passed.
  double since(const Event& begin) const {
    constexpr double kMilli = 1e-3;
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin.event_, event_), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) * kMilli;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace sweep::engine::embedded::cuda
