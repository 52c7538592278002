// Tensor maps for copies of whole pages.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "kernels/cuda/arguments.h"

namespace flashmla::cuda {

// A map {dimension of a chunk of 64, token of the page, chunk, page} with boxes of `box_tokens` tokens and `box_chunks`
// chunks, each token's 128 bytes of a chunk swizzled. The pool is aligned; `box_tokens` as box_tokens() of dense_plan.h
// says, and not 0.
cudaError_t make_page_map(const Pool& pool, int32_t chunks, int32_t box_chunks, int32_t box_tokens, CUtensorMap& map);

}  // namespace flashmla::cuda
