// The judge of the kernels: the same mathematics in double precision, written independently of every backend and for
// nothing but being right. It takes the very parameters a kernel takes and reads the same bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "flashmla/flashmla.h"

namespace flashmla::oracle {

// Below this a weight may be too small for a 16-bit format (F16: steps of 2^-24, and scales of a few units).
constexpr double kSmallWeight = 0x1p-23;

// One query head of one query token.
struct Row {
  std::vector<double> out;  // [512], not rounded
  double lse = 0;
  // What the error of a kernel that computes in lower precision is in proportion to:
  std::vector<double> abs_out;    // [512] sum over tokens of weight * |v|
  std::vector<double> small_out;  // [512] the same with weights of at most kSmallWeight each
  double score_mass = 0;          // max over tokens of |scale| * sum over dimensions of |q k|
  double score_peak = 0;          // max over tokens of |score|
};

// All heads of query token `token` of request `batch`. The arguments must be valid, but an index outside the pool
// counts as -1, as it does on CUDA builds; outputs are not touched.
std::vector<Row> sparse_decode(const flashmla_sparse_decode_params& params, int32_t batch, int32_t token);
std::vector<Row> dense_decode(const flashmla_dense_decode_params& params, int32_t batch, int32_t token);

// One token of a cache, dequantised: d_qk values.
std::vector<double> sparse_token(const flashmla_sparse_kv& kv, int32_t slot);

}  // namespace flashmla::oracle
