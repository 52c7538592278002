// Tensor maps for copies of whole pages.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "kernels/cuda/arguments.h"

namespace flashmla::cuda {

// Tokens of a box that tiles of 64 tokens are copied in: the largest power of two up to 64 that divides the page size.
// 0: pages of this shape cannot be copied so.
int32_t box_tokens(const Pool& pool);

// A map {dimension, token of the page, page} with boxes of 64 dimensions and box_tokens() tokens, swizzled over 128
// bytes. Only where box_tokens() is not 0 and the pool is aligned.
cudaError_t make_page_map(const Pool& pool, int32_t dims, CUtensorMap& map, int32_t& tokens);

}  // namespace flashmla::cuda
