// Pieces of a layer that the decoder and the draft head share.
#pragma once

#include <cstdint>

#include "orchestrator/engine/embedded/cpu/weights.h"
#include "orchestrator/engine/embedded/cpu/worker_pool.h"

namespace sweep::engine::embedded::cpu {

// hidden[r] += mlp(normed[r]) for `rows` rows of hidden_size values.
void add_mlp(const MlpWeights& mlp, const ModelConfig& config, const float* normed, int64_t rows, float* hidden);

// c[rows, padded_outputs] = a[rows, inputs] W^T, columns shared among the workers.
void multiply_in_parallel(WorkerPool& workers, const PackedMatrix& matrix, const float* a, int64_t rows, float* c);

}  // namespace sweep::engine::embedded::cpu
