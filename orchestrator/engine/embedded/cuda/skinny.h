// Products with the weights of up to 16 rows, and what comes right before or behind them done on the way. A row's
// result does not depend on how many there are.
#pragma once

#include <cuda_runtime_api.h>

#include "orchestrator/engine/embedded/cuda/kernels.h"
#include "orchestrator/engine/embedded/cuda/product.h"

namespace sweep::engine::embedded::cuda {

// Whether the functions below can do it.
bool is_skinny(const Product& product);

void multiply_skinny(const Product& product, cudaStream_t stream);

// silu(gate) * up of the product, as silu_multiply() takes it apart; its unit must be kGateUnit.
inline constexpr int32_t kGateUnit = 8;
void multiply_gate_up(const Product& product, const SiluArguments& silu, cudaStream_t stream);

// The queries of the product, as make_queries() makes them.
void multiply_queries(const Product& product, const QueryArguments& queries, cudaStream_t stream);

// The product with outputs of attention that turn_back() has not yet seen. Inputs of a group are whole heads.
void multiply_turned(const Product& product, const TurnBackArguments& turn, cudaStream_t stream);

}  // namespace sweep::engine::embedded::cuda
