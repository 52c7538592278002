// How a dense call is spread over the device by the kernels of dense_kernel.cuh.
#pragma once

#include "kernels/cuda/plan.h"

namespace flashmla::cuda {

// Tokens of the boxes that tiles of 64 tokens are copied in by these kernels: the largest power of two up to 64 that
// divides the page size. 0: pages of this shape cannot be copied so.
int32_t box_tokens(const Pool& pool);

// As make_plan().
Plan make_dense_plan(const Kernels& kernels, const std::vector<Occupancy>& occupancies, const Work& work,
                     int32_t padded_heads);

}  // namespace flashmla::cuda
