// Tensor maps for copies of whole pages.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "kernels/cuda/arguments.h"

namespace flashmla::cuda {

constexpr int64_t kStrideLimit = int64_t{1} << 40;  // bytes; strides of a map are less

// A map {dimension of a chunk of 64, token of the page, chunk, page} with boxes of `box_tokens` tokens and `box_chunks`
// chunks, each token's 128 bytes of a chunk swizzled. The pool is aligned; `box_tokens` as box_tokens() of dense_plan.h
// says, and not 0.
cudaError_t make_page_map(const Pool& pool, int32_t chunks, int32_t box_chunks, int32_t box_tokens, CUtensorMap& map);

// A map {dimension of a chunk, row of the request (the heads of all query tokens), chunk, request} of queries, with
// boxes of `box_rows` rows and all chunks, swizzled likewise; what is behind the last row becomes zeros. False: queries
// that lie like these have none.
bool make_query_map(const DecodeArguments& arguments, int32_t chunks, int32_t batch, int32_t box_rows,
                    CUtensorMap& map);

}  // namespace flashmla::cuda
