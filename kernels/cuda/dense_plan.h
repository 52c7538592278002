// How a dense call is spread over the device by the kernels of dense_kernel.cuh.
#pragma once

#include "kernels/cuda/plan.h"

namespace flashmla::cuda {

// As make_plan().
Plan make_dense_plan(const Kernels& kernels, const std::vector<Occupancy>& occupancies, const Work& work,
                     int32_t padded_heads);

}  // namespace flashmla::cuda
