// Checks of the values behind the pointers, which a CPU build can afford: an index outside the pool is an error, never
// a read outside it.
#pragma once

#include "flashmla/flashmla.h"
#include "kernels/api/error_text.h"

namespace flashmla::cpu {

// The arguments must have passed check_sparse_decode() or check_dense_decode().
flashmla_status check_sparse_values(const flashmla_sparse_decode_params& params, ErrorText& error);
flashmla_status check_dense_values(const flashmla_dense_decode_params& params, ErrorText& error);

}  // namespace flashmla::cpu
