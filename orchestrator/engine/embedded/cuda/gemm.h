// Matrix products on the tensor cores, through cuBLAS.
#pragma once

#include <cublas_v2.h>

#include <cstdint>

#include "orchestrator/engine/embedded/cuda/kernels.h"
#include "orchestrator/engine/embedded/cuda/runtime.h"

namespace sweep::engine::embedded::cuda {

// to[row, :] = from[row, :] W^T for W [outputs, inputs]; FP32 sums. `groups` > 1: as many independent products, group g
// with columns [g * inputs, ...) of `from`, rows [g * outputs, ...) of W, and columns [g * outputs, ...) of `to`.
struct Product {
  const Bf16* weights = nullptr;
  int64_t outputs = 0;  // of a group
  int64_t inputs = 0;
  int64_t groups = 1;
  const Bf16* from = nullptr;  // [rows, groups * inputs]
  int64_t rows = 0;
  float* to = nullptr;      // [rows, groups * outputs], or
  Bf16* to_bf16 = nullptr;  // the same, rounded
};

class Gemm {
 public:
  // On the current device; everything runs on `stream`.
  explicit Gemm(cudaStream_t stream);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  void multiply(const Product& product);

 private:
  DeviceArray<uint8_t> workspace_;  // of our own, so that products can be captured into graphs
  cublasHandle_t handle_ = nullptr;
};

}  // namespace sweep::engine::embedded::cuda
