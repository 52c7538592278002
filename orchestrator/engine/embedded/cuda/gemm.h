// Matrix products on the tensor cores: of few rows by a kernel of our own, of many by cuBLAS.
#pragma once

#include <cublas_v2.h>

#include <cstdint>

#include "orchestrator/engine/embedded/cuda/product.h"
#include "orchestrator/engine/embedded/cuda/runtime.h"

namespace sweep::engine::embedded::cuda {

class Gemm {
 public:
  // On the current device; everything runs on `stream`.
  explicit Gemm(cudaStream_t stream);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  void multiply(const Product& product);

 private:
  cudaStream_t stream_;
  DeviceArray<uint8_t> workspace_;  // of our own, so that products can be captured into graphs
  cublasHandle_t handle_ = nullptr;
};

}  // namespace sweep::engine::embedded::cuda
