// Products with the weights of up to 16 rows. A row's result does not depend on how many there are.
#pragma once

#include <cuda_runtime_api.h>

#include "orchestrator/engine/embedded/cuda/product.h"

namespace sweep::engine::embedded::cuda {

// Whether multiply_skinny() can do it.
bool is_skinny(const Product& product);

void multiply_skinny(const Product& product, cudaStream_t stream);

}  // namespace sweep::engine::embedded::cuda
