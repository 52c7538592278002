// A caller's parameters as the kernels take them.
#pragma once

#include "kernels/cuda/arguments.h"

namespace flashmla::cuda {

// For a single block per row, until set_shards().
DecodeArguments make_arguments(const flashmla_sparse_decode_params& params);
DecodeArguments make_arguments(const flashmla_dense_decode_params& params);

void set_shards(DecodeArguments& arguments, int32_t splits, int32_t parts, float* partial);

}  // namespace flashmla::cuda
