// The judge of the kernels: the same mathematics in double precision, written independently of every backend and for
// nothing but being right. It takes the very parameters a kernel takes and reads the same bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "flashmla/flashmla.h"

namespace flashmla::oracle {

// One query head of one query token.
struct Row {
  std::vector<double> out;  // [512], not rounded
  double lse = 0;
  // What an error of the output or the LSE is measured against (see gate/tolerance.h):
  double score_mass = 0;        // max over tokens of |scale| * sum_i |q_i k_i|
  std::vector<double> abs_out;  // [512] sum over tokens of weight * |v|
  int64_t tokens = 0;
};

struct RowIndex {
  int32_t batch, token, head;
};

// The arguments must be valid. Reads q, the caches and the sink; never the outputs.
Row sparse_decode_row(const flashmla_sparse_decode_params& params, RowIndex row);
Row dense_decode_row(const flashmla_dense_decode_params& params, RowIndex row);

// One token of a cache, dequantised: d_qk values.
std::vector<double> sparse_token(const flashmla_sparse_kv& kv, int32_t slot);

}  // namespace flashmla::oracle
