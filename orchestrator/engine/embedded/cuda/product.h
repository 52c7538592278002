// What is multiplied with the weights.
#pragma once

#include <cstdint>

namespace sweep::engine::embedded::cuda {

using Bf16 = uint16_t;

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

}  // namespace sweep::engine::embedded::cuda
